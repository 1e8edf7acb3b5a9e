"""Match, explain and test subscriptions and events from files, without a broker and without Spark.

For: `validate`, `match`, `explain`, `test` and `translate`. May enter: files, matchers, and the readers of
documents in `streaming`. Must not know: Kafka, Spark, and the job's settings.
"""
