"""The verdicts say what was wrong, the exit code too, and the picture has all series."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from rig.load import Load
from tests.soak.checking.check import Found
from tests.soak.report import draw, head, line, verdicts
from tests.soak.run import Outcome

LOAD = Load(minutes=60)
FOUND = Found(windows=3, events=36_000, changes=1_000).as_data()


def sample(n: int) -> dict[str, Any]:
    taken = {"processes": 1, "memory_mb": 300.0, "resident_mb": 400.0, "threads": 20, "descriptors": 40, "cpu_s": 1.0}
    rates = dict.fromkeys(("events_per_second", "done_per_second", "changes_per_second", "deliveries_per_second"), 10.0)
    return {
        "at_s": 10.0 * (n + 1),
        **rates,
        "lag": 1_234,
        "latency_ms": {"p50": 100.0, "p99": 200.0, "max": 300.0 + n},
        "processes": {
            **dict.fromkeys(("JVM", "broker", "check"), taken),
            "driver": taken | {"memory_mb": 200.0 + n, "resident_mb": 200.0 + n},
        },
        "disk_mb": {"events": 10.0, "checkpoint": 5.0},
    }


def outcome(**fields: Any) -> Outcome:
    written = {"events": 36_000_000, "changes": 1_800_000, "longest_pause_ms": 9.0, "seconds": 3_600.4}
    right: dict[str, Any] = {"written": written, "drain_s": 1.0, "checked": FOUND, "all_checked": True}
    right["samples"] = [sample(n) for n in range(360)]
    return Outcome(LOAD, {}, 10.0, **{**right, **fields})


STOPPED = {"stopped": 143, "written": {}, "drain_s": None}


@pytest.mark.parametrize(
    ("fields", "exit_code", "words"),
    [
        ({}, 0, "right: each there once, in order, by its version"),
        ({}, 0, "sustained: 9,999 events/s and 500 changes/s written, done 1.0 s after the last of them"),
        ({"checked": FOUND | {"twice": 2, "right": False}}, 1, "WRONG: 2 twice"),
        ({"checked": FOUND | {"out_of_order": 1, "right": False}}, 1, "WRONG: 1 out of order"),
        ({"dead_letters": 3}, 1, "WRONG: 3 dead letters"),
        ({"all_checked": False}, 1, "not everything was checked"),
        ({"drain_s": 11.0}, 1, "NOT SUSTAINED: 9,999 events/s"),
        ({"drain_s": None}, 1, "NOT SUSTAINED: 9,999 events/s"),
        ({"written": outcome().written | {"seconds": 3_700.0}}, 1, "NOT SUSTAINED: 9,730 events/s"),
        ({"failure": "the job ended"}, 1, "FAILED: the job ended"),
        (STOPPED, 143, "stopped before its end"),
        (STOPPED | {"checked": FOUND | {"missing": 1, "right": False}}, 1, "WRONG: 1 missing"),
        (STOPPED | {"checked": {}, "all_checked": False, "samples": []}, 143, "stopped before its end"),
        ({"restarts": 2}, 0, "the job was restarted 2 times"),
    ],
)
def test_the_exit_code_and_the_words_say_what_was_wrong(fields: dict[str, Any], exit_code: int, words: str) -> None:
    ended = outcome(**fields)
    assert ended.exit_code == exit_code
    assert any(text.startswith(words) for text in verdicts(ended)), list(verdicts(ended))
    assert orjson.loads(orjson.dumps(ended.as_data()))["right"] is ended.right


def test_growth_is_told_but_no_failure() -> None:
    told = list(verdicts(outcome()))
    assert "driver      resident mb 470 grows by 360/h; threads 20 flat; descriptors 40 flat" in told
    assert "disk        events mb 10 flat; checkpoint mb 5 flat" in told
    assert outcome().exit_code == 0
    assert list(verdicts(outcome(samples=[sample(0)])))[-1] == "growth: too short to say"


def test_a_line_is_as_wide_as_its_head_and_has_the_worst_latency_of_its_minute() -> None:
    text = line([sample(n) for n in range(6)])
    assert len(text) == len(head())
    assert text.split() == ["0:01:00", "10", "10", "1,234", "100", "200", "305", "505", "300", "120", "60", "15"]


@pytest.mark.parametrize("samples", [[], [sample(0)], [sample(n) for n in range(900)]])
def test_the_picture_has_a_panel_for_each_figure(
    samples: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.axes import Axes

    lines: list[Any] = []
    plot = Axes.plot

    def labelled(*arguments: Any, **named: Any) -> Any:
        lines.append(named.get("label"))
        return plot(*arguments, **named)

    monkeypatch.setattr(Axes, "plot", labelled)
    draw(outcome(samples=samples), tmp_path / "soak.png")
    kinds, places = (["JVM", "broker", "check", "driver"], ["events", "checkpoint"]) if samples else ([], [])
    rates = ["events written", "events done", "changes", "deliveries read"]
    assert sorted(lines) == sorted([*3 * kinds, *places, "p50", "p99", "max", *rates])
    assert (tmp_path / "soak.png").stat().st_size > 1_000
