"""What an image keeps, so that a first start need not compile it."""

from __future__ import annotations

import re

import pytest

from streaming import warming
from tests.documents import HOME

(KEPT,) = re.findall(r"cache\(a\) for a in \((.*)\)\]", (HOME / "docker" / "Dockerfile").read_text())


@pytest.mark.parametrize("algorithm", re.findall(r"\w+", KEPT))
def test_the_image_compiles_what_its_line_names(algorithm: str) -> None:
    warming.cache(algorithm)
