"""Take the pictures of docs/ of a running job: `python -m tests.support.programs.pictures http://127.0.0.1:9464`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlencode

from PIL import Image

from tests.support.browser import browser

DOCS = Path(__file__).parents[3] / "docs"
EVENT = urlencode({"event": json.dumps({"symbol": "IBM", "price": 120, "volume": 990}), "id": "ibm-cheap"})
COLOURS = 192  # which make half of the file
# name, path, width, height, and whether it is dark
PICTURES = (
    ("status-page", "/", 1280, 1280, False),
    ("console-subscriptions", "/subscriptions?q=ibm", 1000, 420, False),
    ("console-match", f"/match?{EVENT}", 1000, 720, False),
    ("console-dead-letters", "/dead-letters", 1000, 420, True),
    ("console-phone", f"/match?{EVENT}", 390, 700, True),
)


def take(url: str) -> None:
    with TemporaryDirectory() as directory, browser(Path(directory)) as chromium:
        for name, path, width, height, dark in PICTURES:
            chromium.show(width, height, dark=dark)
            chromium.open(f"{url}{path}")
            path_of = DOCS / f"{name}.png"
            chromium.picture(path_of)
            Image.open(path_of).quantize(COLOURS).save(path_of, optimize=True)


if __name__ == "__main__":
    take(sys.argv[1])
