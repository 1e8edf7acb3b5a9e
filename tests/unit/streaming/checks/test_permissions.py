"""The table of permissions has what `doctor` checks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streaming.checks import FAILURE, cluster
from streaming.checks.permissions import EVERYTHING, USERS, Permission
from streaming.kafka.topics import Rights
from tests.unit.streaming.checks.test_checks import GOOD, NOW_MS, SETTINGS

(JOB,) = (user.permissions for user in USERS if user.name == "job")
WITHOUT = {
    "group": lambda p, operation: replace(GOOD, group=Rights()),
    "topic": lambda p, operation: (
        replace(GOOD, create="no")
        if operation == "create"
        else replace(
            GOOD, allowed={p.name.replace(EVERYTHING, "alice"): Rights({"READ", "WRITE"} - {operation.upper()})}
        )
    ),
    "transactional-id": lambda p, operation: replace(
        GOOD, transactional_ids=tuple({"sluice", "sluice/0"} - {p.name.replace(EVERYTHING, "0")})
    ),
}


@pytest.mark.parametrize(
    ("permission", "operation"), [(p, operation) for p in JOB for operation in p.operations], ids=lambda x: str(x)
)
def test_doctor_misses_each_permission_of_the_job(permission: Permission, operation: str) -> None:
    lacking = WITHOUT[permission.kind](permission, operation)
    (failure,) = (f for f in cluster.findings(SETTINGS, lacking, NOW_MS) if f.state == FAILURE)
    assert operation in failure.text
    assert permission.name in failure.text or "deliveries.alice" in failure.text


def test_doctor_asks_for_no_topic_that_the_table_leaves_out() -> None:
    asked: list[str] = []

    class Asked(type(GOOD)):  # type: ignore[misc]
        def rights(self, topics):  # type: ignore[no-untyped-def]
            asked.extend(topics)
            return super().rights(topics)

    list(cluster.findings(SETTINGS, Asked(), NOW_MS))
    names = {p.name for p in JOB if p.kind == "topic"}
    assert {"deliveries.*" if name.startswith("deliveries.") else name for name in asked} == names
