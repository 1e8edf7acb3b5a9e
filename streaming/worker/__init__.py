"""Code that runs in a Spark task.

For: read events, match them, compile changes, and answer with rows. May enter: codecs, documents, mapped segments,
Arrow batches. Must not know: Kafka's clients, the driver and its state. A task keeps nothing but caches.
"""
