"""`make fuzz` on a few seeds, so that it does not break unseen."""

from __future__ import annotations

import pytest

from tests.support.programs import fuzz


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_wrong(seed: int) -> None:
    fuzz.run(seed)
