"""The reader notes when it reads what the job wrote."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import orjson

from tests.soak.checking.reader import Reader
from tests.soak.checking.records import STATUS_TIME, Records

BEGAN_MS = 1_800_000_000_000


def test_a_change_is_in_force_when_its_status_is_read_not_when_it_is_written() -> None:
    reader = Reader.__new__(Reader)
    reader._status_topic, reader._reached, reader._records = "statuses", {}, Records(1, 1, BEGAN_MS)
    change = {"change": {"partition": 0, "offset": 3}, "status": "accepted", "version": 4, "in_force_from": {"0": 9}}
    fields = {"topic": "statuses", "partition": 0, "offset": 3, "error": None, "value": orjson.dumps(change)}
    message: Any = SimpleNamespace(**{name: lambda value=value: value for name, value in fields.items()})
    reader._take(message, BEGAN_MS / 1000 + 0.25)
    assert reader._records.taken().statuses[:, STATUS_TIME].tolist() == [250]
