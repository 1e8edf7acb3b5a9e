"""The points of the gate, by name, in the order in which they are measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bench.gate.figure import Point
from bench.gate.matching import Alone, Batches, Building, Rules
from bench.gate.system import Rate, Start
from bench.workloads.event_bus import EventBus
from bench.workloads.synthetic import Workload
from rig.load import Load

_TABLE = Workload(events=1_024)  # 10 of 20 attributes, width 0.3
_LOAD = Load(subscriptions=20_000, events_per_second=5_000.0, changes_per_second=0.0, minutes=10 / 60, warm_up_s=5.0)

POINTS: Mapping[str, Point] = {
    "match-1k": Batches(replace(_TABLE, subscriptions=1_000), rounds=60),
    "match-100k": Batches(replace(_TABLE, subscriptions=100_000), rounds=60),
    "match-1m": Batches(replace(_TABLE, subscriptions=1_000_000), rounds=12),
    "alone-100k": Alone(replace(_TABLE, subscriptions=100_000, events=256), rounds=60),
    "json-1k": Rules(EventBus(1_000, 512), rounds=60),
    "build-100k": Building(replace(_TABLE, subscriptions=100_000, events=2), EventBus(100_000, 32), rounds=3),
    "start": Start(_LOAD, idle_s=12.0),
    "rate-5k": Rate(_LOAD),
    "rate-60k": Rate(replace(_LOAD, events_per_second=60_000.0)),
    "ten-deliveries": Rate(replace(_LOAD, events_per_second=4_000.0, matches=10.0)),
    "1000-topics": Rate(replace(_LOAD, subscribers=1_000), {"deliveries.layout": "topic_per_subscriber"}),
}
