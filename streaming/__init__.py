"""The streaming job: bytes in from Kafka, bytes out to Kafka, exactly once.

The modules in this folder import nothing else of the product, and every room may use them: `rows` (what travels between
driver and workers), `errors` (errors that stop the job), `log`, `latencies`, `text_format` and `version`. The rooms:

    process     the job as an operating system's process: ends with its parent, restarts, one checkpoint directory each
    codecs      a record's bytes to an event
    documents   subscriptions, deliveries, dead letters and statuses: how they are written and read
    publishing  record batches and the transactions of slots: how tasks publish
    kafka       clients, topics, the driver's transactions, and the translation of Kafka's errors
    index       compiled subscriptions as files that workers map
    worker      code that runs in a Spark task: read, match, publish, compile
    state       the subscriptions in force: apply changes, compact, save, restore
    monitoring  figures, latencies and health of the job, and their HTTP server
    driver      the job: sources, batches, isolation, quotas, transactions, start and stop
    admin       the command line's work on topics
    checks      the checks of `doctor`

A room sees only rooms above it in this list, and not all of these: tests/unit/test_architecture.py has the table.

For: the job, and what looks at its topics. May enter: settings, matchers, records of Kafka. Must not know: the command
line, the benchmarks, and which matching algorithm answered.
"""
