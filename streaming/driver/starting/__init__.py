"""Everything before the first batch of a job, and the preparation of a standby.

For: compile and load kernels, warm up Spark, publish the statuses of a first start. May enter: what `driver` may. Must
not know: batches.

beside.py       enter Spark's session while other work goes on
compiling.py    compile the kernels of a job
archiving.py    archive the classes of the JVM
warm_up.py      load kernels and state in the workers
standby.py      prepare all that needs no state while another job runs
first_start.py  publish the statuses of the subscriptions that a first start has read
"""
