"""Reference pages and drawings in docs/ that are generated from the code.

python -m tests.support.pages                write them
"""

from __future__ import annotations

from tests.support.pages import commands, log_events, metrics, permissions, python_api, settings
from tests.support.pages.drawings import DRAWINGS

PAGES = {
    "docs/commands.md": commands.page,
    "docs/log-events.md": log_events.page,
    "docs/metrics.md": metrics.page,
    "docs/permissions.md": permissions.page,
    "docs/python-api.md": python_api.page,
    "docs/settings.md": settings.page,
    **DRAWINGS,
}
