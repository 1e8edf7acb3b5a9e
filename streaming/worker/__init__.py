"""Run in a Spark task: read events, match them, compile changes, and return rows.

For: the code of tasks. May enter: codecs, documents, mapped segments, Arrow batches. Must not know: Kafka's clients,
the driver and its state. A task keeps nothing but caches.
"""
