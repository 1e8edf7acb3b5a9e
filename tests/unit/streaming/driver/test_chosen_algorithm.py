"""The settings of `[matching]` are tried before the job starts."""

from __future__ import annotations

from typing import Any

import pytest

from config import Settings
from matchers.papers import ccm
from streaming.driver.assembly import checked_empty_state
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
        ({"adaptive_after_ms": 5}, "adaptive_after_ms works only with matching.algorithm = 'wpa_rein'"),
    ],
)
def test_what_cannot_be_used_is_rejected_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, matching: dict[str, Any], reason: str
) -> None:
    monkeypatch.setattr(ccm, "gpu", lambda: None)
    with pytest.raises(JobError, match=reason.replace("?", r"\?").replace("(", r"\(")):
        checked_empty_state(Settings.model_validate({"matching": matching}), lambda name: True)


def test_what_can_be_used_is_the_state_before_the_first_subscription() -> None:
    empty = checked_empty_state(Settings.model_validate({"matching": {"algorithm": "ocm"}}), lambda name: True)
    assert (empty.version, len(empty), empty.algorithm) == (0, 0, "ocm")


def test_until_its_kernels_are_compiled_another_stands_in() -> None:
    settings = Settings.model_validate({"matching": {"algorithm": "ocm", "options": {"bits": 8}}})
    empty = checked_empty_state(settings, lambda name: name != "ocm")
    assert (empty.algorithm, empty.options) == ("scan", {})
    wrong = Settings.model_validate({"matching": {"algorithm": "ocm", "options": {"bytes": 8}}})
    with pytest.raises(JobError, match=r"matching\.options do not fit matching\.algorithm = 'ocm'"):
        checked_empty_state(wrong, lambda name: name != "ocm")
