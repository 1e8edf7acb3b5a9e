"""Give the servers and clients in the test process long timeouts: a busy machine may stand still for minutes."""

from __future__ import annotations

import pytest

from streaming.monitoring import top
from streaming.monitoring.web import connections
from tests.support.patience import PATIENCE_S


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, limit in ((connections, "TIMEOUT_S"), (connections, "LATE_S"), (top, "TIMEOUT_S")):
        monkeypatch.setattr(module, limit, PATIENCE_S)
