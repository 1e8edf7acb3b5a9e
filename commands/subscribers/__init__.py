"""Command `subscribers`: list the metrics of each subscriber.

For: `command` has the flags, `table` the list. May enter: the metrics topic. Must not know: the inside of the job.
"""
