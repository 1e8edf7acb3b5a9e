"""Measure what docs/tiles.md states about `tiles`: its constants, its cost model and its rivals.

For: sweep a constant, compare the model with the counters, time indexes that are no algorithm here. May enter:
workloads and matchers. Must not know: Kafka, Spark, and what papers say.
"""
