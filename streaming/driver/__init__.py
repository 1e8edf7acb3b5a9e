"""The job on the driver: from settings to running batches.

For: build the session and sources, run each batch to its transaction, isolate poisonous rows, hold to quotas, start and
stop. May enter: every room but `admin` and `checks`. Must not know: the command line.
"""
