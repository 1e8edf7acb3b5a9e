"""Kafka's topics as one stream of rows.INPUT rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from streaming import secret_files
from streaming.errors import JobError
from streaming.rows import Source, SourcePartition, is_events, of_source
from streaming.source_topics import SourceTopics
from streaming.state.state import State

if TYPE_CHECKING:
    from config.model import Settings

TUNING = {
    "kafka.isolation.level": "read_committed",
    # Spark polls for records only where there are some. Behind them the consumer fetches more, and the broker answers
    # nothing else on the connection while it waits for these, not even Spark's requests for the topic's bounds.
    "kafka.fetch.max.wait.ms": "0",
    # After every poll Spark fetches the topic's bounds, twice. With Kafka's default of 500 records that was most of its
    # consumer's work.
    "kafka.max.poll.records": "100000",
    "kafka.max.partition.fetch.bytes": "8388608",
    # When a broker dies, Spark's request for the offsets may stay unanswered. By default it waits 60 s and tries three
    # times; with this it tries again sooner, and for as long altogether.
    "kafka.request.timeout.ms": "10000",
    "kafka.default.api.timeout.ms": "10000",
    "fetchOffset.numRetries": "18",
}

PROTOCOL = "security.protocol"

# Pairs of an event and a subscription that a batch may have while each pair is tested: with 10 to 40 ns per pair, the
# latter on a busy machine, two cores take one to four seconds.
PAIRS_WITHOUT_INDEX = 200_000_000
LEAST_EVENTS = 100


def check(client: Mapping[str, str], spark: Mapping[str, str]) -> None:
    """Check that Kafka's two clients have the same protocol: the Java one would wait minutes for an answer. Raises
    JobError."""
    ours, theirs = (options.get(PROTOCOL, "plaintext") for options in (client, spark))
    if ours.lower() != theirs.lower():
        raise JobError(
            f"kafka.client and kafka.spark have different {PROTOCOL} ({ours!r}, {theirs!r}); set the same in both"
        )


def kafka_options(settings: Settings) -> dict[str, str]:
    """The options of Spark's Kafka source for its connections."""
    own = secret_files.read("kafka.spark", settings.kafka.spark)
    options = {f"kafka.{name}": value for name, value in own.items()}
    return {"kafka.bootstrap.servers": settings.kafka.bootstrap_servers, **options}


def events_per_batch(most: int, state: State) -> int:
    """Return how many events a batch may have: `most`, or fewer while many subscriptions are matched without an index.

    A long batch would delay the use of a finished index, and changes.
    """
    if not state.lacks_index:
        return most
    return min(most, max(LEAST_EVENTS, PAIRS_WITHOUT_INDEX // max(1, len(state.snapshot))))


def event_and_change_stream(
    spark: SparkSession,
    kafka: Mapping[str, str],
    names: Mapping[Source, str],
    starts: Mapping[SourcePartition, int],
    caps: tuple[int, int] | None,
) -> DataFrame:
    """A stream of all topics, by `names`. `starts` count only for a new checkpoint; `caps` are the most events and
    changes of a batch, if there is a limit."""
    of_events = {source: name for source, name in names.items() if is_events(source)}
    of_changes = {source: name for source, name in names.items() if not is_events(source)}
    streams = []
    for sources, most in zip((of_events, of_changes), caps or (0, 0), strict=True):
        stream = (
            spark.readStream.format("kafka")
            .options(**kafka, **{k: v for k, v in TUNING.items() if k not in kafka})
            .option("subscribe", ",".join(sources.values()))
            .option("startingOffsets", _offsets(sources, starts))
            .options(**({"maxOffsetsPerTrigger": most} if most else {}))
            .option("includeHeaders", "true")
            # Records that were deleted before they were read are gone. The pipeline counts them.
            .option("failOnDataLoss", "false")
            .load()
        )
        streams.append(_rows(stream, sources))
    return streams[0].unionByName(streams[1])


def planned(spark: SparkSession, checkpoint: str, topics: SourceTopics, number: int) -> dict[SourcePartition, int]:
    """The end offsets of a batch, which Spark records before it starts the batch."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"{checkpoint}/offsets/{number}")
    file = path.getFileSystem(spark._jsc.hadoopConfiguration()).open(path)
    try:
        text = jvm.org.apache.commons.io.IOUtils.toString(file, "UTF-8")
    finally:
        file.close()
    _, _, *of_sources = text.splitlines()  # after a version and facts of the batch
    plans = [json.loads(line) for line in of_sources if line != "-"]
    ends = {topic: by_partition for plan in plans for topic, by_partition in plan.items()}
    return {(source, int(p)): end for source, topic in topics.names.items() for p, end in ends.get(topic, {}).items()}


def _rows(records: DataFrame, names: Mapping[Source, str]) -> DataFrame:
    first, *others = names
    number = f.lit(first)
    for source in others:
        number = f.when(f.col("topic") == names[source], source).otherwise(number)
    return records.select(
        number.alias("source"),
        "partition",
        "offset",
        f.unix_millis("timestamp").alias("timestamp"),
        "key",
        "value",
        "headers",
    )


def _offsets(names: Mapping[Source, str], positions: Mapping[SourcePartition, int]) -> str:
    return json.dumps({name: {str(p): at for p, at in of_source(positions, s).items()} for s, name in names.items()})
