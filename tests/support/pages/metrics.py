"""Generate docs/metrics.md from the exposition, the alerts and the dashboard."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from streaming.documents.subscriber_metrics import SubscriberMetrics
from streaming.latencies import Latencies
from streaming.monitoring.exposition import BOUNDS_S, Exposition
from streaming.monitoring.figures import Figures
from streaming.monitoring.reporting import LOGGED
from streaming.monitoring.view import (
    COMPILING,
    RUNNING,
    About,
    BrokerEnds,
    Executor,
    InHand,
    JobView,
    Lag,
    Preparation,
    SparkProgress,
    StateView,
    SubscribersView,
)
from streaming.monitoring.wording import MEMORY
from streaming.process.supervision import RestartHistory
from tests.support.documents import HOME
from tests.support.pages.markdown import code, table

# A job for which every value is known, so that no metric is left out.
COMPLETE = JobView(
    about=About("sluice", "auto", "json", 1, 0.0, 300, 30, RestartHistory(), lambda: True),
    now=1.0,
    phase=RUNNING,
    beat_at=1.0,
    progressed_at=1.0,
    figures=Figures(
        publish_errors={"Produce NOT_LEADER_FOR_PARTITION": 1},
        spent_ms={f"{stage}_ms": 0.0 for stage in LOGGED},
        last_batch_at=1.0,
    ),
    in_hand=InHand(1, "match", 1.0),
    state=StateView(0, 0, 0, 0, Latencies(), compacting=False, index="auto", saved_at=1.0),
    preparation=Preparation(COMPILING, 0.0, 0.0, 0.0),
    lag=(Lag("events", 0, 0, 0),),
    broker=BrokerEnds(answered_at=1.0),
    progress=SparkProgress(
        heap_bytes=dict.fromkeys(("used", "live", "committed", "max"), 0),
        executors=(Executor("0", "host", 1, 0, 0, 0),),
    ),
    resident_bytes=dict.fromkeys(MEMORY, 0),
    start_s=1.0,
    troubles=(),
    subscribers=SubscribersView(1, True, (), (SubscriberMetrics("sluice", "alice", 0, 0, 0, {}, 1, 1),)),
)

HEAD = f"""# Metrics

Every metric that a job serves to Prometheus at `/metrics` ([how to monitor a job](how-to/monitor.md)).
[docker/monitoring](../docker/monitoring) has the [alerts](#alerts), and the Grafana dashboard with these panels.

- A name that ends with `_total` is a counter: use `rate` or `increase`. Counters start at 0 with the process, except
  those of subscribers and `sluice_restarts_total`.
- A histogram has the series `_bucket`, `_sum` and `_count`. The upper bounds of its buckets in seconds (label `le`):
  {", ".join(f"{s:g}" for s in BOUNDS_S)}, infinity.
- A metric without a unit counts the things that its meaning names.

`python -m tests.support.pages` generates this page from `streaming/monitoring/exposition.py`,
`streaming/monitoring/metrics.py` and the files in `docker/monitoring`.
"""

HEADER = ("metric", "type", "unit", "labels", "meaning", "used by")
UNITS = {  # by the end of a name
    "_timestamp_seconds": "s since 1970",
    "_time_seconds": "s since 1970",
    "_seconds": "s",
    "_bytes": "bytes",
    "_ratio": "0 to 1",
}
LABELS = {
    "algorithm": "`matching.algorithm`",
    "area": "area of the heap of the driver's JVM; `live` is what the last garbage collection left",
    "codec": "`events.codec`",
    "error": "Kafka's name of the error, such as `NOT_LEADER_FOR_PARTITION`",
    "executor": "Spark's id of the executor",
    "generation": "generation of Python's garbage collector",
    "host": "host of the executor",
    "implementation": "of Python",
    "major": "of Python's version",
    "minor": "of Python's version",
    "partition": "number of the partition",
    "patchlevel": "of Python's version",
    "phase": "phase of a batch: sending new parts of the state to the workers (`prepare`), applying changes (`apply`)",
    "query": "`query.name`",
    "reason": "[reason](records.md#dead-letters) of the dead letter",
    "request": "Kafka's name of the request, such as `Produce`",
    "result": "answer to a change of a subscription",
    "revision": "commit of the image; empty in a checkout",
    "role": "kind of process: Spark's JVM, its Python workers, other children of the driver (`other`)",
    "stage": "stage of an event's way through the job; `total`: all stages together",
    "subscriber": "a subscriber that `metrics.subscribers` lists",
    "topic": "name of the topic",
    "version": "version of Sluice, or of Python",
}
LISTED = {"area", "phase", "reason", "result", "role", "stage"}  # labels whose values the code determines

MONITORING = HOME / "docker" / "monitoring"
METRIC = re.compile(r"\b(?:sluice|process|python)_\w+")


def page() -> str:
    alerts, panels = _alerts(), json.loads((MONITORING / "sluice.json").read_text())["panels"]
    rows = {_name(family): _row(family, alerts, panels) for family in families()}
    job = [row for name, row in rows.items() if name.startswith("sluice_")]
    process = [row for name, row in rows.items() if not name.startswith("sluice_")]
    labels = ((code(label), meaning) for label, meaning in LABELS.items())
    return "\n".join(
        (
            HEAD,
            f"## The job\n\n{table(HEADER, job)}",
            f"## The driver's Python process\n\n{table(HEADER, process)}",
            f"## Labels\n\n{table(('label', 'meaning'), labels)}",
            "## Alerts\n",
            *map(_alert, alerts),
        )
    )


def families() -> Iterable[Metric]:
    """The metrics of a job that has all of them."""
    return text_string_to_metric_families(Exposition(lambda: COMPLETE).page("")[1].decode())


def _alerts() -> list[dict[str, Any]]:
    groups = YAML(typ="safe", pure=True).load((MONITORING / "alerts.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def _name(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


def _row(family: Metric, alerts: Iterable[dict[str, Any]], panels: Iterable[dict[str, Any]]) -> tuple[str, ...]:
    name = _name(family)
    unit = next((unit for end, unit in UNITS.items() if name.removesuffix("_total").endswith(end)), "")
    users = [
        *(f"alert [{alert['alert']}](#{alert['alert'].lower()})" for alert in alerts if name in _used(alert["expr"])),
        *(f"panel *{panel['title']}*" for panel in panels if name in _used(*(t["expr"] for t in panel["targets"]))),
    ]
    return code(name), family.type, unit, _labels(family), family.documentation, "; ".join(users)


def _used(*expressions: str) -> set[str]:
    """The metrics in expressions of PromQL."""
    names = {name for expression in expressions for name in METRIC.findall(expression)}
    return names | {re.sub(r"_(?:bucket|sum|count)$", "", name) for name in names}


def _labels(family: Metric) -> str:
    values: dict[str, dict[str, None]] = {}
    for sample in family.samples:
        for label, value in sample.labels.items():
            if label != "le":
                values.setdefault(label, {})[value] = None
    if unknown := values.keys() - LABELS.keys():
        raise KeyError(f"{family.name} has labels without a meaning in LABELS: {', '.join(sorted(unknown))}")
    return "; ".join(
        f"{code(label)}: {', '.join(map(code, of))}" if label in LISTED else code(label) for label, of in values.items()
    )


def _alert(alert: dict[str, Any]) -> str:
    notes = alert["annotations"]
    severity = alert["labels"]["severity"].capitalize()
    condition = f"this holds for {alert['for']}" if "for" in alert else "this holds"
    return f"""### {alert["alert"]}

{_plain(notes["summary"])}. {_plain(notes["description"])} [More]({notes["runbook"].removeprefix("docs/")})

{severity}, if {condition}:

```promql
{alert["expr"]}
```
"""


def _plain(template: str) -> str:
    """The text of an alert with capitals in place of what Prometheus inserts."""
    named = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda label: label[1].upper(), template)
    return re.sub(r"\{\{ \$value[^}]*\}\}B?(?!\w)", "VALUE", named)
