"""Publishing: encode matched events as record batches, and commit them in a transaction with the offsets of the events.

For: Kafka's record batches and transactions without an object per delivery. May enter: columns of events and matches,
kafka-python's connections. Must not know: Spark, matching, the content of subscriptions. A slot receives batches and
offsets, wherever they come from.
"""
