"""`make fuzz` on a few seeds, so that it does not break unseen."""

from __future__ import annotations

import pytest

from tests.support.programs import fuzz


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_wrong(seed: int) -> None:
    fuzz.run(seed)


@pytest.mark.parametrize("seed", range(3, 15))
def test_nothing_is_wrong_with_http(seed: int) -> None:
    fuzz.run(seed, ["http"])
