"""The generated pages are what the code says, and leave out no metric."""

from __future__ import annotations

import ast
from xml.etree import ElementTree

import pytest

from streaming.monitoring.metrics import COUNTERS, GAUGES
from tests.support.documents import HOME
from tests.support.pages import PAGES
from tests.support.pages.drawings import DRAWINGS
from tests.support.pages.metrics import families


@pytest.mark.parametrize("page", PAGES)
def test_a_generated_page_is_what_the_code_says(page: str) -> None:
    assert (HOME / page).read_text() == PAGES[page](), "python -m tests.support.pages writes it"


@pytest.mark.parametrize("page", DRAWINGS)
def test_a_drawing_describes_itself_and_runs_nothing(page: str) -> None:
    drawing = ElementTree.fromstring((HOME / page).read_text())
    tags = [element.tag.rpartition("}")[2] for element in drawing]
    assert tags[:2] == ["title", "desc"]
    assert all(element.text for element in drawing[:2])
    assert set(tags) <= {"title", "desc", "style", "rect", "line", "polygon", "text"}


def test_the_page_of_metrics_leaves_out_none() -> None:
    names = {family.name.removesuffix("_info") for family in families()}
    assert {m.metric for of in (COUNTERS, GAUGES) for metrics in of.values() for m in metrics if m.metric} <= names
    tree = ast.parse((HOME / "streaming" / "monitoring" / "exposition.py").read_text())
    formatted = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and text.startswith("sluice_"):
            prefix = id(node) in formatted  # of several names
            assert text in names or (prefix and any(name.startswith(text) for name in names)), text
