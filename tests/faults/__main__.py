"""`python -m tests.faults --faults 20 --seed 1 --json out.json --picture out.png`; exit code 1 if anything is wrong."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from random import Random

import orjson

from rig.setting import setting
from streaming.errors import JobError
from tests.faults.kinds import KINDS, possible
from tests.faults.report import draw, lines
from tests.faults.run import drawn, run
from tests.faults.system import LOAD, System


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    arguments.add_argument("--faults", type=int, default=100, help="how many")
    arguments.add_argument("--seed", type=int, default=None, help="of what breaks when; by default another each time")
    arguments.add_argument("--kinds", default="", help=f"only these, separated by commas: {', '.join(KINDS)}")
    arguments.add_argument("--cluster", action="store_true", help="on a Spark cluster of its own")
    arguments.add_argument("--replicated", action="store_true", help="three brokers, with three replicas of all topics")
    arguments.add_argument("--compacted", action="store_true", help="a compacted topic of events")
    arguments.add_argument("--topics", action="store_true", help="two topics of events, and two tenants")
    arguments.add_argument("--past", action="store_true", help="subscriptions that begin in the past, and replays")
    arguments.add_argument("--standby", action="store_true", help="a second process stands by")
    arguments.add_argument("--transactions", type=int, default=2, choices=(1, 2), help="their version on the broker")
    arguments.add_argument(
        "--set", action="append", default=[], type=setting, metavar="NAME=VALUE", help="a setting of the job"
    )
    arguments.add_argument("--json", type=Path, help="a file for the outcome")
    arguments.add_argument("--picture", type=Path, help="a file for the picture")
    given = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # by way of all that is to be stopped
    seed = time.time_ns() % 2**31 if given.seed is None else given.seed
    began = time.monotonic()
    asked = given.kinds.split(",") if given.kinds else list(KINDS)
    if unknown := set(asked) - KINDS.keys():
        arguments.error(f"no kind {', '.join(sorted(unknown))}")
    if given.replicated and given.transactions != 2:
        arguments.error("--transactions goes with one broker; leave out --replicated")

    def tell(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", flush=True)

    tell(f"seed {seed}")
    try:
        with System(
            LOAD,
            {"matching.algorithm": "scan", **dict(given.set)},
            on_cluster=given.cluster,
            replicated=given.replicated,
            compacted=given.compacted,
            transactions=given.transactions,
            several=given.topics,
            past=given.past,
            stands_by=given.standby,
        ) as system:
            tell("the job runs")
            kinds, left_out = possible(asked, system)
            for kind, reason in left_out.items():
                tell(f"{kind} is left out: {reason}")
            outcome = run(system, drawn(Random(seed), kinds, given.faults), seed, tell)
    except JobError as error:
        tell(f"FAILED: {error}")
        return 1
    print()
    for line in lines(outcome):
        print(line)
    if given.picture:
        draw(outcome.as_data(), given.picture)
    if given.json:
        given.json.write_bytes(orjson.dumps(outcome.as_data(), option=orjson.OPT_INDENT_2) + b"\n")
    return 0 if outcome.right else 1


if __name__ == "__main__":
    sys.exit(main())
