"""Write the generated pages."""

from __future__ import annotations

from tests.support.documents import HOME
from tests.support.pages import PAGES

for name, page in PAGES.items():
    (HOME / name).write_text(page())
