"""Publishing: matched events become record batches, and go out in a transaction with the offsets of their events.

For: Kafka's record batches and transactions without an object per delivery. May enter: columns of events and matches,
kafka-python's connections. Must not know: Spark, matching, and what a subscription says. A slot is handed batches and
offsets; it does not ask where they come from.
"""
