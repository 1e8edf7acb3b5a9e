"""What a batch is, and how tasks get it.

For: give each batch to tasks, in pieces where it must be. May enter: what `driver` may. Must not know: who plans
batches.

batch_run.py   gives one batch to tasks, whatever it is
source_run.py  a batch of Spark's source, whose rows the tasks get of Spark
rereading.py   such a batch with timestamps that Spark cannot read
epoch_run.py   an epoch, whose records the tasks read themselves
"""
