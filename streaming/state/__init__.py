"""The subscriptions in force, on the driver.

For: apply changes, compact segments in the background, save versions, and restore them at a start. May enter: segments,
and the subscriptions topic as it is read at a start. Must not know: deliveries, transactions, Spark's session.
"""
