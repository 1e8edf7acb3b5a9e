"""Start Spark's Python workers with their code loaded.

For: the process that Spark starts, and one that has loaded everything before. May enter: Spark's streams and
environment. Must not know: what a worker does with a task.
"""
