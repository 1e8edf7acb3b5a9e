"""The thread pool that matchers share."""

from __future__ import annotations

import os
import runpy

import pytest

from matchers.algorithms import pool


def test_a_platform_without_fork_has_a_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "register_at_fork")
    over = runpy.run_path(pool.__file__)["over"]
    assert over(4, 2, lambda begin, end: (begin, end)) == [(0, 2), (2, 4)]
