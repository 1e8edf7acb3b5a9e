"""Connections: send the requests of a transaction to brokers, and interpret the answers.

For: leaders, coordinators and requests over kafka-python's connections. These are not part of its public interface, so
only this package uses them. May enter: librdkafka's options, requests and answers. Must not know: record batches,
slots, the content of records.
"""
