"""Limits on what a batch may do: quotas of subscribers, load shedding, and the time that tasks may take.

For: decide what is too much, and count it. May enter: what `driver` may. Must not know: the pipeline.
"""
