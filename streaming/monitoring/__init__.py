"""Monitoring for operators: figures, health, logs, traces and a status page.

The job reports to a `Monitor`. Readers get a `View`, an immutable copy of all figures at one moment: `exposition`
formats it for Prometheus, `status` as a JSON document, and `web.page` as a page.

For: count, judge and show. May enter: reports of batches, the state's size, the progress of Spark's query. Must
not know: how a batch is made. Nothing here changes the job, and no reader blocks a batch.
"""
