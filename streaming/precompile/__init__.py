"""The compiled kernels of a job: which there are, and how to get them before their first use.

For: compile what a job with some algorithm calls, and remember that it is done. May enter: the work of a task, run in
this process on rows made up for it. Must not know: Spark, Kafka, the job that waits.
"""
