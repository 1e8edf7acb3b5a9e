"""The page of the client says what its docstrings say."""

from __future__ import annotations

from tests.support.documents import HOME
from tests.support.reference import reference


def test_the_reference_is_that_of_the_docstrings() -> None:
    _, section = (HOME / "docs" / "client.md").read_text().split("\n## Reference\n\n")
    assert section == reference(), "python -m tests.support.reference prints it"
