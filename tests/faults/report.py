"""Report a run: a row for each kind of fault, what was found, and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.faults.run import Outcome

if TYPE_CHECKING:
    pass

INCHES_WIDE, INCHES_A_KIND, INCHES_MORE = 9.0, 0.24, 1.6
MARK_S = 15.0  # 95 % of recoveries should take no longer


def lines(outcome: Outcome) -> Iterator[str]:
    yield "seconds without a commit of new events; own: without the time for which the fault itself lasted"
    yield f"{'kind':20}{'n':>4}{'p50':>8}{'p95':>8}{'max':>8}{'own p50':>10}{'own p95':>10}{'own max':>10}"
    for kind, row in outcome.by_kind():
        outages, recoveries = row["outage"].values(), row["recovery"].values()
        figures = "".join(f"{s:8.1f}" for s in outages) + "".join(f"{s:10.1f}" for s in recoveries)
        yield f"{kind:20}{row['n']:4}{figures}"
    yield ""
    if (found := outcome.found) is not None:
        counted = {name: n for name, n in found.as_data().items() if isinstance(n, int) and not isinstance(n, bool)}
        yield ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in counted.items())
        yield from (f"  {text}" for text in found.details)
    if outcome.failure:
        yield f"FAILED: {outcome.failure}"
    verdict = "right" if outcome.right else "WRONG or incomplete"
    yield f"{verdict}: {len(outcome.faults)} faults, {outcome.restarts} restarts"


def draw(data: Mapping[str, Any], file: Path) -> None:
    """A dot for each fault, in a row for each kind, from the JSON of a run: recoveries, and outages as rings."""
    from matplotlib.figure import Figure

    from bench.papers.draw import INK, OTHERS, plain

    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for fault in data["faults"]:
        by_kind.setdefault(fault["kind"], []).append(fault)
    kinds = sorted(by_kind, key=lambda kind: max(map(_recovery_s, by_kind[kind])))
    figure = Figure(figsize=(INCHES_WIDE, INCHES_MORE + INCHES_A_KIND * len(kinds)), layout="constrained", dpi=110)
    axes = figure.subplots()
    places = [(row, fault) for row, kind in enumerate(kinds) for fault in by_kind[kind]]
    rows = [row for row, _ in places]
    axes.plot([f["outage_s"] for _, f in places], rows, "o", color=INK, fillstyle="none", label="in all")
    axes.plot(
        [_recovery_s(f) for _, f in places], rows, "o", color=OTHERS[2], markersize=4, label="without the fault itself"
    )
    axes.axvline(MARK_S, color=OTHERS[1], linewidth=1, linestyle="--", label=f"{MARK_S:.0f} s")
    axes.set_yticks(range(len(kinds)), [f"{kind} ({len(by_kind[kind])})" for kind in kinds])
    axes.set_xlim(left=0)
    axes.set_xlabel("seconds without a commit of new events")
    plain(axes)
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    found = data["checked"] or {}
    words = "all right" if data["right"] else "WRONG or incomplete"
    title = (
        f"{len(data['faults'])} faults, {found.get('delivered', 0):,} deliveries, {words}; {data['restarts']} restarts"
    )
    figure.suptitle(title, x=0.01, ha="left", fontsize=10, color=INK)
    figure.savefig(file)


def _recovery_s(fault: Mapping[str, Any]) -> float:
    return float(fault["recovery_s"])
