"""Connections: a process asks brokers for what a transaction needs, and knows what their answers mean.

For: leaders, coordinators and requests over kafka-python's connections, which are no part of its public interface, so
they are used here only. May enter: librdkafka's options, requests and answers. Must not know: record batches, slots,
and what is published.
"""
