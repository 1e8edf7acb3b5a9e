"""State how long a test waits for what must happen: a busy machine takes its time, so only what never happens fails."""

from __future__ import annotations

PATIENCE_S = 600.0
