"""The metrics of each subscriber and subscription: what tasks report is summed, and kept in a compacted topic.

For: sums by name, the topic, and the thread that does both beside the batches. May enter: what tasks report, the
subscriptions in force. Must not know: how a batch is made. An error of the topic costs metrics and never stops the job.
"""
