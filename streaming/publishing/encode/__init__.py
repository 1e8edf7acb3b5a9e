"""Encoding: columns of events and matches become record batches and bodies of Produce requests.

For: Kafka's formats without an object per delivery. May enter: columns, and single records. Must not know: connections,
transactions, and who publishes.
"""
