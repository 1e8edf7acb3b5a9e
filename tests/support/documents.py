"""The commands in the documents, and the output that the documents show.

    python run_stream.py subscribe ... --wait                what is run
    # 1 subscription written to subscriptions                what comes out, where the document says so
    python run_stream.py explain ...  # exit code 1          0 if it does not say

`…` stands for what differs from run to run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

HOME = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    p.relative_to(HOME).as_posix()
    for p in (
        *HOME.glob("*.md"),
        *HOME.glob("docs/**/*.md"),
        *HOME.glob("[a-z]*/README.md"),
        *HOME.glob("deploy/*/README.md"),
    )
)


def blocks(document: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (HOME / document).read_text(), re.DOTALL | re.MULTILINE)


@dataclass
class Step:
    command: str
    remark: str  # behind it
    said: list[str] = field(default_factory=list)  # line by line

    @property
    def code(self) -> int:
        found = re.search(r"exit code (\d+)", self.remark)
        return int(found[1]) if found else 0

    def expects(self, output: str) -> bool:
        """Whether this is what the document says; anything, if it says nothing."""
        return not self.said or re.fullmatch("\n".join(map(pattern, self.said)), output.rstrip("\n")) is not None


def pattern(line: str) -> str:
    return ".*".join(map(re.escape, line.split("…")))


def steps(document: str) -> Iterator[Step]:
    for block in blocks(document, "sh"):
        step = None
        for line in block.splitlines():
            if line.startswith("#"):
                assert step is not None, f"{document}: output before any command: {line}"
                step.said.append(line.removeprefix("#").removeprefix(" "))
            elif line.strip():
                if step is not None:
                    yield step
                command, _, remark = line.partition("  #")
                step = Step(command.strip(), remark)
        if step is not None:
            yield step


def table(document: str, heading: str) -> list[tuple[str, str]]:
    """The rows of two pieces of code each below a heading."""
    _, section = (HOME / document).read_text().split(f"{heading}\n")
    rows = re.findall(r"^\| `(.+?)` \| `(.+)` \|$", section.split("\n## ")[0], re.MULTILINE)
    return [(left, right.replace("\\|", "|")) for left, right in rows]


def prose(document: str) -> str:
    """Return the document without its blocks."""
    return re.sub(r"^```.*?^```", "", (HOME / document).read_text(), flags=re.DOTALL | re.MULTILINE)


def links(document: str) -> list[str]:
    """Return the links to other documents and files, and to positions in them."""
    found = re.findall(r"(?<!`)\]\(([^)\s]+)\)", prose(document))
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def anchors(file: Path) -> set[str]:
    """Return the anchors of the headings, as the usual renderers make them."""
    headings = re.findall(r"^#+ (.*)$", prose(file.relative_to(HOME).as_posix()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
