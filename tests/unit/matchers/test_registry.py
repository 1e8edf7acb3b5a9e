"""The algorithms by name; the published ones are imported for who asks for one of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from matchers import papers, registry

PUBLISHED = "[name for name in sys.modules if name.startswith('matchers.papers')]"
WORKS = f"""
import sys
import streaming.worker.daemon, streaming.worker.matching
from matchers import ALGORITHMS, Index
from matchers.index import stored
from matchers.index.snapshot import Part

index = Index.build({{"a": {{"x": [1]}}, "b": {{"x": [2]}}}})
(part,) = index.snapshot.parts
back = stored.put_together(*stored.taken_apart(part), Part)
print(back.algorithm, index.match([{{"x": 2}}]), "rein" in [*ALGORITHMS], len(ALGORITHMS) > 10)
print({PUBLISHED})
"""
MEASURES = f"""
import sys
from matchers import ALGORITHMS, EventBatch, SubscriptionTable

table = SubscriptionTable.from_intervals([0], [0], [1], [2], n_subscriptions=1, n_columns=1)
print({PUBLISHED}, ALGORITHMS["naive"](table).match(EventBatch.from_dense([[1]])).of(0).tolist())
print(ALGORITHMS["ada_rein"].approximate, "matchers.papers" in {PUBLISHED})
"""


def lines(program: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_worker_of_a_default_job_imports_no_published_algorithm() -> None:
    assert lines(WORKS) == ["auto [['b']] True True", "[]"]


def test_a_published_algorithm_is_imported_when_it_is_looked_at() -> None:
    assert lines(MEASURES) == ["[] [0]", "True True"]


def test_the_registry_names_the_published_algorithms() -> None:
    assert tuple(papers.ALGORITHMS) == registry.PAPERS
    assert len(registry.ALGORITHMS) == len({*registry.ALGORITHMS})


@pytest.mark.parametrize("name", registry.PAPERS)
def test_a_published_algorithm_is_the_one_of_its_package(name: str) -> None:
    assert registry.ALGORITHMS[name] is papers.ALGORITHMS[name]
