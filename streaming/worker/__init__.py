"""Run Spark's Python workers: start and watch them, and in tasks read events, match them, compile changes, return rows.

For: the code of tasks. May enter: codecs, documents, mapped segments, Arrow batches. Must not know: Kafka's clients,
the driver and its state. A task keeps nothing but caches.
"""
