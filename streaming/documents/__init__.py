"""The documents of the protocol: subscriptions in; deliveries, dead letters and statuses out.

For: their JSON, bytes and headers, and the rejection of invalid subscriptions. May enter: formats and limits.
Must not know: how records reach a topic, or who reads them.
"""
