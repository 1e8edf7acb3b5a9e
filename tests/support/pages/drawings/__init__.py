"""The drawings of the documentation, each a module of plain calls."""

from __future__ import annotations

from tests.support.pages.drawings import architecture, batch, crash, segments, versions

DRAWINGS = {
    "docs/drawings/architecture.svg": architecture.drawing,
    "docs/drawings/batch.svg": batch.drawing,
    "docs/drawings/versions.svg": versions.drawing,
    "docs/drawings/segments.svg": segments.drawing,
    "docs/drawings/crash.svg": crash.drawing,
}
