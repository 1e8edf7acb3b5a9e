"""Look-ups for the job's console: subscriptions, subscribers, matches of an event, and dead letters.

For: answer one question about the state in force, or about the last dead letters, within a bounded time. May enter: the
snapshot in force, and single records of Kafka. Must not know: HTTP, HTML, and how the job gets its state.
"""
