"""Baselines: the same task written for one known load, with Spark alone, with Kafka Streams and with Flink.

    join           the events joined with the broadcast subscriptions: equal symbols, price and volume within the ranges
    udf            a Python UDF that goes through all broadcast subscriptions for each event
    udf_by_symbol  the same, but only through those to the event's symbol
    by_symbol      what those in Java share: a hash table of rules by symbol, and their comparison with events
    kafka_streams  an application in Java with exactly_once_v2
    flink          a job in Java with an exactly-once sink, in a local cluster

Those on Spark read the events topic as a stream and the subscriptions topic once, when they start: a change of a
subscription is not seen until the next start. They deliver at least once: what a batch wrote before a crash is written
again after it. `kafka_streams` and `flink` take changes while they run and deliver exactly once, but no version says
from which event on a change counts.

`python -m bench.baselines.join TASK` runs one on Spark until it is killed. The task is JSON: `bootstrap_servers`, the
topics `events`, `subscriptions` and `deliveries`, the directory `checkpoint`, and `spark`, the settings of the session.

For: something to compare Sluice with. May enter: Spark, Kafka Streams and Flink, as their documents show them. Must
not know: any of our packages.
"""
