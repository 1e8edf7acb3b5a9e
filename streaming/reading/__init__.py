"""Reading: fetch records from brokers and decode them to columns.

For: Kafka's Fetch requests and record batches, without an object per record and without Spark. May enter: the
connections and kernels of publishing, offsets to read from. Must not know: Spark, matching, the content of records.
The tasks of a job read with it, and so do replays.
"""
