"""The example of docs/algorithms.md, built beside the other algorithms and compared with them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from typer.testing import CliRunner

import matchers.algorithms
import run_stream
from matchers import ALGORITHMS, Algorithm, EventBatch, Index, SubscriptionTable
from tests.support.documents import HOME, blocks, steps
from tests.support.generators.cases import CASES
from tests.support.generators.strategies import batches, tables
from tests.unit.matchers.agreement import random_batch, random_table

pytestmark = pytest.mark.kernels

NAME = "by_high"
DOCUMENT = "docs/algorithms.md"


@pytest.fixture(scope="module", autouse=True)
def added(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("added")
        for block in blocks(DOCUMENT, "python"):
            file = home / block.splitlines()[0].removeprefix("# ")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block)
        package = matchers.algorithms
        patch.setattr(package, "__path__", [*package.__path__, str(home / Path(*package.__name__.split(".")))])
        algorithm = importlib.import_module(f"matchers.algorithms.{NAME}")
        patch.setitem(ALGORITHMS, NAME, Algorithm(algorithm.build, algorithm.STORED))
        yield
    for module in (NAME, f"{NAME}.kernel"):
        del sys.modules[f"matchers.algorithms.{module}"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables(), batch=batches())
def test_the_example_lists_what_the_definition_does(table: dict[str, Any], batch: dict[str, Any]) -> None:
    agree(SubscriptionTable.from_intervals(**table), EventBatch.from_values(**batch))


@pytest.mark.parametrize("seed", range(10))
def test_the_example_is_right_for_many(seed: int) -> None:
    """Larger tables, by seed: only these have many intervals in a column."""
    r = np.random.default_rng(seed)
    agree(random_table(r, 60, 5), random_batch(r, 20, 5))


def agree(table: SubscriptionTable, events: EventBatch) -> None:
    found, expected = (ALGORITHMS[name](table).match(events) for name in (NAME, "naive"))
    assert [found.of(e).tolist() for e in range(len(found))] == [expected.of(e).tolist() for e in range(len(expected))]


def test_the_example_knows_the_language() -> None:
    index = Index.build({case: pattern for case, pattern, _, _ in CASES}, algorithm=NAME)
    for case, _, event, expected in CASES:
        assert (case in index.match([event])[0]) is expected, case


def test_the_commands_of_the_example_are_so() -> None:
    *tests, measured = [step.command.split() for step in steps(DOCUMENT)]
    for command, test, *_ in tests:
        assert (command, (HOME / test).exists()) == ("pytest", True)
    toy = ("-n", "300", "--events", "12", "--seconds", "0.01", "--settling", "0.05")
    result = CliRunner().invoke(run_stream.app, [*measured[2:], *toy])
    assert result.exit_code == 0, result.output
