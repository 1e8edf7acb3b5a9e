"""Reading: a process fetches records from brokers and decodes them to columns.

For: Kafka's Fetch requests and record batches, without an object per record and without Spark. May enter: the
connections and kernels of publishing, offsets to read from. Must not know: Spark, matching, and what a record says.
Replays use it; the job does not yet.
"""
