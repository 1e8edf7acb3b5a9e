"""The workloads of the experiments, each once, for a comparison of algorithms on all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from bench.papers.figures import Varied
from bench.papers.sweeps import figures


def of_sweeps(papers: Iterable[str], scale: float, events: int) -> Iterator[tuple[str, int, Varied]]:
    """Yield the name of each point, its number of subscriptions, and its workload at this scale with `events` events.

    Points that differ only in the options of an algorithm or in the batch share a workload. Points with real events
    are left out. Raises BenchError.
    """
    seen: set[Varied] = set()
    for paper in papers:
        for figure in figures(paper, None):
            for point in figure.points if not figure.real else ():
                workload = replace(figure.workload, **point.workload, events=events).scaled(scale)
                if workload not in seen:
                    seen.add(workload)
                    name = f"{figure.name} {point.label or f'{point.x:g}'}"
                    yield name, workload.subscriptions, workload
