"""The queries of docker/monitoring use only metrics that the job has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from streaming.monitoring.exposition import Exposition
from tests.support.documents import HOME, anchors
from tests.unit.streaming.monitoring.test_monitoring import busy

DIRECTORY = HOME / "docker" / "monitoring"
BOARD = json.loads((DIRECTORY / "sluice.json").read_text())
PANELS = BOARD["panels"]
ALERTS = [
    rule
    for group in YAML(typ="safe", pure=True).load((DIRECTORY / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
SCRAPE = YAML(typ="safe", pure=True).load((DIRECTORY / "prometheus.yaml").read_text())
COMPOSE = YAML(typ="safe", pure=True).load((HOME / "docker" / "compose.yaml").read_text())

SCRAPED = {"job", "instance"}  # labels that Prometheus adds to all it reads
CHOSEN = {"area": {"used", "live", "committed", "max"}}  # values that the job of the test has no more than some of
WORDS = {"by", "without", "on", "ignoring", "and", "or", "unless", "offset", "bool", "group_left", "group_right"}
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"


def exposed() -> dict[str, dict[str, set[str]]]:
    """The values of each label of each metric, of a job that has done some of everything."""
    view = busy()
    found: dict[str, dict[str, set[str]]] = {"up": {}}
    for family in text_string_to_metric_families(Exposition(lambda: view).page("")[1].decode()):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                labels.setdefault(label, CHOSEN.get(label, set()).copy()).add(value)
    return found


EXPOSED = exposed()


def asked(expression: str) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Each metric of an expression in PromQL, with its matchers: label, operator, value."""
    rest = re.sub(r"\[[^\]]*\]|\b(by|without|on|ignoring)\s*\([^)]*\)", " ", expression)
    for found in re.finditer(rf"(?<![\w.$])({NAME})(?![\w:]|\s*\()(?:\s*\{{([^}}]*)\}})?", rest):
        if found[1] not in WORDS:
            yield found[1], re.findall(rf'({NAME})\s*(=~|!~|!=|=)\s*"([^"]*)"', found[2] or "")


def wrong(expression: str) -> list[str]:
    """Return the metrics of an expression that the job does not have."""
    message, labels = [], set(SCRAPED)
    for metric, matchers in asked(expression):
        known = EXPOSED.get(metric)
        if known is None:
            message.append(f"no metric {metric}")
            continue
        labels |= set(known)
        for label, operator, value in matchers:
            if label in SCRAPED:
                continue
            values = {value} if operator in ("=", "!=") else set(value.split("|"))
            if label not in known:
                message.append(f"{metric} has no label {label}")
            elif strange := values - known[label]:
                message.append(f"{metric}: {label} is never {', '.join(sorted(strange))}")
    for of in re.findall(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)", expression):
        message += [f"nothing has a label {one}" for one in re.findall(NAME, of) if one not in labels]
    return message


def shown(panel: dict[str, Any]) -> set[str]:
    """Labels that the legend of a panel names."""
    return {one for target in panel["targets"] for one in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])}


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("sluice_ready == 0", []),
        ("rate(sluice_event_total[5m])", ["no metric sluice_event_total"]),
        ("1.5e3 * sluice_lag_records", []),
        ('sluice_lag_records{topics="x"}', ["sluice_lag_records has no label topics"]),
        ('sluice_changes_total{result=~"rejected|no"}', ["sluice_changes_total: result is never no"]),
        ("sum by (instance, le, phase) (sluice_lag_records)", ["nothing has a label le", "nothing has a label phase"]),
        ('absent(up{job="sluice"})', []),
        ("sluice_ready offset 1d", []),
        ("sluice_event_latency_seconds", ["no metric sluice_event_latency_seconds"]),
    ],
)
def test_a_wrong_name_is_found(expression: str, message: list[str]) -> None:
    assert wrong(expression) == message


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_asks_for_what_the_job_tells(panel: dict[str, Any]) -> None:
    assert [one for target in panel["targets"] for one in wrong(target["expr"])] == []
    labels = {label for target in panel["targets"] for name, _ in asked(target["expr"]) for label in EXPOSED[name]}
    assert shown(panel) <= labels | SCRAPED
    for target in panel["targets"]:
        grouped = re.search(r"\bby \(([^)]*)\)", target["expr"])
        legend = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        assert grouped is None or legend <= set(grouped[1].split(", "))


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_says_what_it_shows_and_in_which_unit(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"]
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert {panel["datasource"]["uid"], *(target["datasource"]["uid"] for target in panel["targets"])} == {
        "${datasource}"
    }


def test_panels_are_told_apart_and_none_lies_on_another() -> None:
    assert len({panel["id"] for panel in PANELS}) == len({panel["title"] for panel in PANELS}) == len(PANELS)
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in PANELS)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24


def test_what_the_panels_choose_from_is_told() -> None:
    variables = {one["name"]: one for one in BOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(PANELS)))
    assert used - {"__rate_interval"} == set(variables)
    found = re.fullmatch(r"label_values\((\w+), (\w+)\)", variables["instance"]["query"])
    assert found is not None
    assert found[1] in EXPOSED
    assert found[2] in SCRAPED


def test_the_dashboard_shows_all_that_the_job_itself_counts() -> None:
    """Metrics that the dashboard leaves out are named here, with the reason."""
    left_out = {
        "sluice_batches_total",  # the histogram of their durations has it
        "sluice_start_duration_seconds",  # of the last start, in the log
        "sluice_batch_phase_seconds_total",  # the stages say where time goes
        "sluice_false_positives_ratio",  # 0 but in the adaptive mode
        "sluice_without_index_seconds",  # 0 but in the first minutes, and the page and /ready say it
        "sluice_broker_answered_timestamp_seconds",  # readiness has it
        "sluice_standby_ready",  # its alert
        "sluice_executors",  # the panels by executor show how many they are
        "sluice_batch_without_progress_seconds",  # and this
        # There are none unless the settings list subscribers.
        *(f"sluice_subscriber_{name}_total" for name in ("deliveries", "delivered_bytes", "matches", "dead_letters")),
        "sluice_subscriber_last_event_timestamp_seconds",
    }
    ours = {name for name in EXPOSED if name.startswith("sluice_") and not name.endswith(("_sum", "_count"))}
    used = {name for panel in PANELS for target in panel["targets"] for name, _ in asked(target["expr"])}
    assert ours - used == left_out


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_asks_for_what_the_job_tells_and_says_what_to_do(alert: dict[str, Any]) -> None:
    assert wrong(alert["expr"]) == []
    notes = alert["annotations"]
    assert notes["summary"]
    assert notes["description"].endswith(".")
    document, _, anchor = notes["runbook"].partition("#")
    assert (document, anchor) == ("docs/troubleshooting.md", alert["alert"].lower())
    assert anchor in anchors(HOME / document)
    assert alert["labels"]["severity"] in ("warning", "critical")


def test_every_alert_has_a_name_of_its_own() -> None:
    names = [alert["alert"] for alert in ALERTS]
    assert len(set(names)) == len(names)


def test_what_is_asked_in_containers_is_where_the_job_answers() -> None:
    (scrape,) = SCRAPE["scrape_configs"]
    services = COMPOSE["services"]
    own = services["sluice"]["environment"]
    assert scrape["job_name"] == "sluice"
    assert scrape["static_configs"] == [{"targets": [f"sluice:{own['SLUICE_MONITORING__PORT']}"]}]
    for name in ("prometheus", "grafana"):
        assert services[name]["profiles"] == ["monitoring"]
        for volume in services[name]["volumes"]:
            assert (HOME / "docker" / volume.partition(":")[0]).is_file()
    assert {name for name in services if "profiles" in services[name]} == {"prometheus", "grafana"}
    inside = {volume.split(":")[1] for volume in services["prometheus"]["volumes"]}
    assert {f"/etc/prometheus/{name}" for name in SCRAPE["rule_files"]} <= inside
