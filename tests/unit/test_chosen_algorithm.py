"""The settings of `[matching]` are tried before the job starts."""

from __future__ import annotations

from typing import Any

import pytest

from config import Settings
from matchers.algorithms import ccm
from streaming.driver.assembly import without_subscriptions
from streaming.errors import JobError

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize(
    ("matching", "reason"),
    [
        (
            {"algorithm": "scam"},
            "matching.algorithm = 'scam' cannot be used: unknown algorithm 'scam'; did you mean 'scan'?",
        ),
        ({"algorithm": "ccm"}, "matching.algorithm = 'ccm' cannot be used: ccm needs a GPU"),
        ({"algorithm": "ocm", "options": {"bits": 65}}, "cannot be used: bits must lie within 1 .. 64, not 65"),
        ({"algorithm": "scan", "options": {"bits": 65}}, "matching.options do not fit matching.algorithm = 'scan'"),
        ({"adaptive_after_ms": 5}, "adaptive_after_ms needs matching.algorithm = 'wpa_rein'"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, matching: dict[str, Any], reason: str
) -> None:
    monkeypatch.setattr(ccm, "gpu", lambda: None)
    with pytest.raises(JobError, match=reason.replace("?", r"\?").replace("(", r"\(")):
        without_subscriptions(Settings.model_validate({"matching": matching}))


def test_what_can_be_used_is_the_state_before_the_first_subscription() -> None:
    empty = without_subscriptions(Settings.model_validate({"matching": {"algorithm": "ocm"}}))
    assert (empty.version, len(empty), empty.algorithm) == (0, 0, "ocm")
