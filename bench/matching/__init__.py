"""Measure the matching algorithms on one workload and check their answers.

For: time algorithms turn by turn, check every answer, and print both. May enter: workloads and matchers. Must not know:
Kafka, Spark, and what papers say.
"""
