"""Kafka: clients, topics, transactions, and errors that name the remedy.

For: everything that talks to a broker from Python. May enter: librdkafka's clients and errors. Must not know: matching,
Spark, and the state of the job. A sink is handed records and offsets, wherever they come from.
"""
