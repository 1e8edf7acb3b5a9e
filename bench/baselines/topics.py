"""The Spark session of an application, and the topics that it reads and writes as DataFrames."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

EVENT = "symbol string, price long, volume long"
TEST = "array<struct<numeric array<string>>>"  # [{"numeric": [">=", 12, "<", 34]}]
SUBSCRIPTION = f"id string, subscriber string, pattern struct<symbol array<string>, price {TEST}, volume {TEST}>"

Subscription = tuple[str, str, str, int, int, int, int]  # a row of `BaselineTopics.subscriptions`
T = TypeVar("T")
Matches = Callable[[T, str, int, int], dict[str, list[str]]]  # subscriptions, an event's values -> ids by subscriber


@dataclass(frozen=True)
class BaselineTopics:
    spark: SparkSession
    bootstrap_servers: str
    names: dict[str, str]
    checkpoint: str

    def subscriptions(self) -> DataFrame:
        """id, subscriber, symbol, and the ranges of price and volume."""
        records = self.spark.read.format("kafka").options(**self._source("subscriptions")).load()
        documents = records.select(f.from_json(f.col("value").cast("string"), SUBSCRIPTION).alias("s")).select("s.*")
        price, volume = (f.col(f"pattern.{name}")[0]["numeric"] for name in ("price", "volume"))
        return documents.select(
            "id",
            "subscriber",
            f.col("pattern.symbol")[0].alias("symbol"),
            *(price[1].cast("long").alias("low"), price[3].cast("long").alias("high")),
            *(volume[1].cast("long").alias("least"), volume[3].cast("long").alias("most")),
        )

    def events(self) -> DataFrame:
        """A stream with the partition, offset, timestamp and value of each event, and its symbol, price and volume."""
        records = self.spark.readStream.format("kafka").options(**self._source("events")).load()
        read = f.from_json(f.col("value").cast("string"), EVENT).alias("event")
        return records.select("partition", "offset", "timestamp", "value", read).select("*", "event.*").drop("event")

    def deliver(self, matches: DataFrame) -> None:
        """Deliver a stream of events, each with a `subscriber` and its `ids`, until the process is killed."""
        records = matches.select(*delivery()).writeStream.format("kafka").options(**self.sink())
        records.option("checkpointLocation", self.checkpoint).start().awaitTermination()

    def deliver_matches(self, matches: Matches[T], subscriptions: T) -> None:
        """Deliver the matches that a Python UDF finds; the subscriptions are a broadcast variable."""
        held = self.spark.sparkContext.broadcast(subscriptions)

        @f.udf("map<string, array<string>>", useArrow=True)
        def matched_by_subscriber(symbol: str, price: int, volume: int) -> dict[str, list[str]]:
            return matches(held.value, symbol, price, volume)

        ids = f.explode(matched_by_subscriber("symbol", "price", "volume")).alias("subscriber", "ids")
        self.deliver(self.events().select("*", ids))

    def sink(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap_servers, "topic": self.names["deliveries"]}

    def _source(self, topic: str) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.bootstrap_servers,
            "subscribe": self.names[topic],
            "startingOffsets": "earliest",
            "kafka.fetch.max.wait.ms": "5",  # with Kafka's 500 a quiet partition holds up a batch
        }


def delivery() -> list[Column]:
    """Columns of the Kafka sink for an event with a `subscriber` and its `ids`."""
    headers = {
        "ce_id": f.concat_ws("-", f.lit("events"), "partition", "offset"),
        "ce_time": f.date_format("timestamp", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"),
        "ce_subscriptionids": f.to_json("ids"),
    }
    pairs = (f.struct(f.lit(name).alias("key"), text.cast("binary").alias("value")) for name, text in headers.items())
    return [f.col("subscriber").alias("key"), f.col("value"), f.array(*pairs).alias("headers")]


def started() -> BaselineTopics:
    """Read the arguments of the command line."""
    task: dict[str, Any] = json.loads(sys.argv[1])
    builder = SparkSession.builder.appName(sys.argv[0])
    for name, value in task["spark"].items():
        builder = builder.config(name, value)
    names = {name: task[name] for name in ("events", "subscriptions", "deliveries")}
    return BaselineTopics(builder.getOrCreate(), task["bootstrap_servers"], names, task["checkpoint"])
