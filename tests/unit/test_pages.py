"""The generated pages are what the code says, and leave out no metric."""

from __future__ import annotations

import ast

import pytest

from streaming.monitoring.metrics import COUNTERS, GAUGES
from tests.support.documents import HOME
from tests.support.pages import PAGES
from tests.support.pages.metrics import families


@pytest.mark.parametrize("page", PAGES)
def test_a_generated_page_is_what_the_code_says(page: str) -> None:
    assert (HOME / page).read_text() == PAGES[page](), "python -m tests.support.pages writes it"


def test_the_page_of_metrics_leaves_out_none() -> None:
    names = {family.name for family in families()}
    assert {m.metric for of in (COUNTERS, GAUGES) for metrics in of.values() for m in metrics if m.metric} <= names
    tree = ast.parse((HOME / "streaming" / "monitoring" / "exposition.py").read_text())
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    for text in texts:
        if text.startswith("sluice_"):  # a whole name, or the beginning of several
            assert any(name.startswith(text) for name in names), text
