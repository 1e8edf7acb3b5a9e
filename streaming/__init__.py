"""The streaming job: bytes in from Kafka, bytes out to Kafka, exactly once.

`start` runs it in the session of another program. The modules in this folder import nothing else of the product, and
every room may use them: `rows` (what travels between driver and workers), `errors` (errors that stop the job), `log`,
`latencies`, `secret_files`, `text_format` and `version`. The rooms:

    process     the job as an operating system's process: ends with its parent, restarts, one checkpoint directory each
    codecs      a record's bytes to an event
    documents   subscriptions, deliveries, dead letters and statuses: how they are written and read
    publishing  record batches and the transactions of slots: how tasks publish
    kafka       clients, topics, the driver's transactions, and the translation of Kafka's errors
    index       compiled subscriptions as files that workers map
    worker      Spark's Python workers: start and watch them; read, match, publish, compile in tasks
    state       the subscriptions in force: apply changes, compact, save, restore
    admin       the client's work on topics
    console     look-ups for the console's pages, in the state in force and in topics
    monitoring  figures, latencies and health of the job, and their HTTP server
    driver      the job: sources, batches, isolation, quotas, transactions, start and stop
    client      the Python API: subscribe, read deliveries, look, replay and redrive
    checks      the checks of `doctor`

A room sees only rooms above it in this list, and not all of these: tests/unit/test_architecture.py has the table.

For: the job, and what looks at its topics. May enter: settings, matchers, records of Kafka. Must not know: the command
line, the benchmarks, and which matching algorithm answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from config.model import Settings
    from streaming.driver.launch import Handle


def spark_defaults(master: str = "local[*]") -> dict[str, str]:
    """The settings that a session for the job needs, and those that make small batches fast: for a program that makes
    its session itself, `SparkSession.builder.config(map=spark_defaults(master)).master(master)`."""
    _unpack()
    from streaming.driver import session  # not with the package: Spark's import takes a second

    return session.defaults(master)


def start(spark: SparkSession, settings: Settings) -> Handle:
    """Run the job in a session of your own: `handle = start(spark, config.load(Path("sluice.toml")))`.

    Returns when it runs; `handle` has stop(), status() and await_termination(). `spark` stays as it is, also when the
    job has ended. Raises JobError if the job cannot start.
    """
    _unpack()
    from streaming.driver import launch

    return launch.start(spark, settings)


def _unpack() -> None:
    from streaming.process import code_archive

    code_archive.unpack()
