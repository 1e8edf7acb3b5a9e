"""A broadcast range join: Spark finds the subscriptions to an event's symbol in a hash table and compares their ranges.

The subscriptions are cached, but each batch builds the hash table anew: Spark keeps no broadcast from one batch to the
next. Without the equality of symbols there would be no hash table either: a range alone makes a nested loop join, in
which every event is compared with every subscription.

The ids of an event and subscriber are collected within the batch, in `foreachBatch`: an aggregation of the stream
itself would keep all of them in a state store until a watermark had passed.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from bench.baselines.topics import delivery, started


def main() -> None:
    topics = started()
    subscriptions = topics.subscriptions().cache()
    subscriptions.count()  # else the first batch would have to read and parse them all
    event, wanted = topics.events().alias("event"), f.broadcast(subscriptions).alias("wanted")
    matches = event.join(
        wanted,
        (f.col("event.symbol") == f.col("wanted.symbol"))
        & (f.col("price") >= f.col("low"))
        & (f.col("price") < f.col("high"))
        & (f.col("volume") >= f.col("least"))
        & (f.col("volume") < f.col("most")),
    ).select("partition", "offset", "timestamp", "value", "subscriber", "id")

    def write(batch: DataFrame, number: int) -> None:
        matched = batch.groupBy("partition", "offset", "timestamp", "value", "subscriber").agg(
            f.collect_list("id").alias("ids")
        )
        matched.select(*delivery()).write.format("kafka").options(**topics.sink()).save()

    query = matches.writeStream.foreachBatch(write).option("checkpointLocation", topics.checkpoint).start()
    query.awaitTermination()


if __name__ == "__main__":
    main()
