"""The two kinds of batches, and how tasks process them.

For: give each batch to tasks, in pieces where it must be. May enter: what `driver` may. Must not know: who plans
batches.

batch_run.py   gives one batch to tasks, whatever it is
source_run.py  a batch of Spark's source, whose rows Spark passes to the tasks
epoch_run.py   an epoch, whose records the tasks read themselves
"""
