"""`python -m tests.faults --faults 20 --seed 1 --json out.json`; exit code 1 if anything is wrong."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from random import Random

import orjson

from tests.faults.job import Failed
from tests.faults.kinds import KINDS, possible
from tests.faults.run import Outcome, drawn, run
from tests.faults.system import LOAD, System


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    arguments.add_argument("--faults", type=int, default=100, help="how many")
    arguments.add_argument("--seed", type=int, default=None, help="of what breaks when; by default another each time")
    arguments.add_argument("--kinds", default="", help=f"only these, separated by commas: {', '.join(KINDS)}")
    arguments.add_argument("--cluster", action="store_true", help="on a Spark cluster of its own")
    arguments.add_argument("--replicated", action="store_true", help="three brokers, with three replicas of all topics")
    arguments.add_argument("--json", type=Path, help="a file for the outcome")
    given = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # by way of all that is to be stopped
    seed = time.time_ns() % 2**31 if given.seed is None else given.seed
    began = time.monotonic()
    asked = given.kinds.split(",") if given.kinds else list(KINDS)
    if unknown := set(asked) - KINDS.keys():
        arguments.error(f"no kind {', '.join(sorted(unknown))}")

    def tell(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", flush=True)

    tell(f"seed {seed}")
    try:
        with System(LOAD, {"matching.algorithm": "scan"}, given.cluster, given.replicated) as system:
            tell("the job runs")
            kinds, left_out = possible(asked, system)
            for kind, reason in left_out.items():
                tell(f"{kind} is left out: {reason}")
            outcome = run(system, drawn(Random(seed), kinds, given.faults), seed, tell)
    except Failed as error:
        tell(f"FAILED: {error}")
        return 1
    show(outcome)
    if given.json:
        given.json.write_bytes(orjson.dumps(outcome.as_data(), option=orjson.OPT_INDENT_2) + b"\n")
    return 0 if outcome.right else 1


def show(outcome: Outcome) -> None:
    print("\nseconds without a commit of new events; the job's own are those that the fault itself did not last")
    print(f"{'kind':20}{'n':>4}{'p50':>8}{'p95':>8}{'max':>8}{'own p50':>10}{'own p95':>10}{'own max':>10}")
    for kind, row in outcome.by_kind():
        outages, recoveries = row["outage"].values(), row["recovery"].values()
        figures = "".join(f"{s:8.1f}" for s in outages) + "".join(f"{s:10.1f}" for s in recoveries)
        print(f"{kind:20}{row['n']:4}{figures}")
    found = outcome.found
    if found is None:
        return
    print()
    counted = {name: n for name, n in found.as_data().items() if isinstance(n, int) and not isinstance(n, bool)}
    print(", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in counted.items()))
    for text in found.details:
        print(f"  {text}")
    print(f"{'right' if outcome.right else 'WRONG'}: {len(outcome.faults)} faults, {outcome.restarts} restarts")


if __name__ == "__main__":
    sys.exit(main())
