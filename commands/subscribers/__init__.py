"""The `subscribers` command: what each subscriber got.

For: `command` has the flags, `table` the list. May enter: the metrics topic. Must not know: the inside of the job.
"""
