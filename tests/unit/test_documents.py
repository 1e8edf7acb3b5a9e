"""What the documents say is so."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from matchers import naive
from matchers.language import parse
from streaming.subscriptions import read_change

HOME = Path(__file__).resolve().parents[2]


def blocks(document: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (HOME / document).read_text(), re.DOTALL)


@pytest.mark.parametrize("document", ["README.md", "matchers/README.md"])
def test_every_python_block_gives_what_its_comments_say(document: str, capsys: pytest.CaptureFixture[str]) -> None:
    for block in blocks(document, "python"):
        names: dict[str, object] = {}
        exec(block, names)
        said = 0
        for line in block.splitlines():
            code, hash_mark, comment = line.partition("  #")
            if not hash_mark or "=" in code.split("(")[0]:
                continue
            said += 1
            capsys.readouterr()
            result = eval(code.strip(), names)
            printed = capsys.readouterr().out.strip()
            assert (printed or repr(result).replace("'", '"')) == comment.strip(" #")
        assert said


def test_the_language_examples_are_accepted() -> None:
    subscription, pattern = blocks("SUBSCRIPTIONS.md", "json")
    assert read_change(b"s1", subscription.encode()).subscription.subscriber == "alice"
    parse(json.loads(pattern))


def test_the_truth_table() -> None:
    rows = [line for line in (HOME / "SUBSCRIPTIONS.md").read_text().splitlines() if line.startswith("|")]
    (start,) = [i for i, row in enumerate(rows) if row.startswith("| event's")]
    entries = {
        "`numeric >= 0`": {"numeric": [">=", 0]},
        '`prefix ""`': {"prefix": ""},
        "`anything-but 5`": {"anything-but": 5},
        "`exists true`": {"exists": True},
        "`exists false`": {"exists": False},
    }
    header = [cell.strip() for cell in rows[start].strip("|").split("|")][1:]
    patterns = [{"x": [entries[h] if h in entries else json.loads(h.strip("`"))]} for h in header]
    for row in rows[start + 2 :]:
        value, *cells = (cell.strip() for cell in row.strip("|").split("|"))
        for text in value.split("`, `"):
            event = {} if value == "absent" else {"x": json.loads(text.strip("`"))}
            found = ["yes" if naive.matches(parse(p), event) else "no" for p in patterns]
            assert found == cells, value
