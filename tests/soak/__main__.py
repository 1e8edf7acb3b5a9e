"""`python -m tests.soak --hours 2 --json soak.json --picture soak.png`; exit code 1 if a delivery is wrong, or the rate
was not sustained. SIGTERM and Ctrl-C stop it; what was seen until then is checked and written."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from typing import Any

import orjson

from rig.load import Load, LoadError
from rig.setting import setting
from tests.soak.report import draw, head, line, verdicts
from tests.soak.run import Outcome, run

TELL_S = 60.0
EVERY_LINES = 30


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    arguments.add_argument("--hours", type=float, default=2.0)
    arguments.add_argument("--subscriptions", type=int, default=1_000_000)
    arguments.add_argument("--events", type=float, default=10_000.0, help="per second")
    arguments.add_argument("--changes", type=float, default=500.0, help="of subscriptions, per second")
    arguments.add_argument("--subscribers", type=int, default=200, help="each has a topic of its own")
    arguments.add_argument("--retention", type=float, default=10.0, help="minutes for which the broker keeps records")
    arguments.add_argument("--restart", action="store_true", help="stop the job and start it again before the load")
    for option, whose in {"--set": "job", "--broker": "broker"}.items():
        arguments.add_argument(
            option, action="append", default=[], type=setting, metavar="NAME=VALUE", help=f"a setting of the {whose}"
        )
    arguments.add_argument("--json", type=Path, help="a file for the outcome, with all samples")
    arguments.add_argument("--picture", type=Path, help="a file for the picture")
    given = arguments.parse_args()
    try:
        load = Load(given.subscriptions, given.events, given.changes, 60 * given.hours, given.subscribers)
    except LoadError as error:
        arguments.error(str(error))
    for file in (given.json, given.picture):
        if file and not file.absolute().parent.is_dir():
            arguments.error(f"there is no directory {file.absolute().parent}")
    outcome = Outcome(load, dict(given.set), given.retention, given.restart, dict(given.broker))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    began = time.monotonic()

    def tell(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", flush=True)

    try:
        run(outcome, tell, Lines(outcome))
    finally:
        _write(outcome, given.json, given.picture)
    return outcome.exit_code


def _write(outcome: Outcome, json: Path | None, picture: Path | None) -> None:
    if json:
        json.write_bytes(orjson.dumps(outcome.as_data(), option=orjson.OPT_INDENT_2) + b"\n")
    print()
    for text in verdicts(outcome):
        print(text)
    if picture:
        draw(outcome, picture)


class Lines:
    """Print a line a minute."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._told = self._lines = 0

    def __call__(self, sample: dict[str, Any]) -> None:
        samples = self._outcome.samples
        before_s = samples[self._told - 1]["at_s"] if self._told else 0.0
        if sample["at_s"] - before_s < TELL_S - 1:
            return
        if self._lines % EVERY_LINES == 0:
            print(head())
        print(line(samples[self._told :]), flush=True)
        self._told, self._lines = len(samples), self._lines + 1


def _stop(number: int, _: object) -> None:
    """Stop everything once, in order."""
    for other in (signal.SIGTERM, signal.SIGINT):
        signal.signal(other, signal.SIG_IGN)
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
