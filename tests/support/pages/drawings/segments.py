"""Draw the segments of the state through a change and a compaction."""

from __future__ import annotations

from tests.support.pages.drawings.svg import Drawing

# (width, subscriptions, kind, deleted)
Segment = tuple[float, str, str, bool]
A: Segment = (250, "1,000,000", "blue", True)
B: Segment = (110, "40,000", "blue", False)
C: Segment = (72, "9,000", "blue", False)

ROWS: tuple[tuple[str, str, tuple[Segment, ...]], ...] = (
    ("version 1,200,000", "", (A, B, C, (52, "300", "blue", False))),
    ("version 1,200,100", "a batch: 100 changes", (A, B, C, (52, "400", "orange", False))),
    ("version 1,200,800", "a batch: 700 changes", (A, B, C, (58, "1,100", "orange", False))),
    ("version 1,200,860", "during compaction", (A, B, C, (58, "1,100", "blue", False), (46, "60", "orange", False))),
    ("version 1,200,890", "after the swap", (A, (140, "50,100", "green", True), (46, "90", "orange", False))),
)
NOTES = (
    "a snapshot: segments of decreasing size, each with its deleted positions",
    "400 = 300 + 100: the segment of 300 is smaller than 4 × 100, so the batch merges it",
    "40,000 is less than 4 × (9,000 + 1,100): three segments are due, too many for a batch",
    "a background process compacts the three; new changes form a segment of their own",
    "the compacted segment takes their place; subscriptions deleted meanwhile stay marked",
)


def drawing() -> str:
    d = Drawing(
        "Segments and compaction",
        "A snapshot has segments of decreasing size. The changes of a batch form a new small segment, merged with "
        "earlier segments that are smaller than four times all segments after them. Larger segments are compacted "
        "in the background and swapped in between two batches. A deleted subscription is only a mark.",
        760,
        470,
    )
    for number, ((version, what, segments), note) in enumerate(zip(ROWS, NOTES, strict=True)):
        y = 24 + 82 * number
        d.label(20, y + 17, version, what)
        x = 160.0
        for wide, count, kind, deleted in segments:
            d.box(x, y, wide, 40, count, kind=kind, style="strong")
            if deleted:
                for mark in (0.12, 0.18, 0.85) if wide > 200 else (0.1,):
                    d.line(x + wide * mark, y + 3, x + wide * mark, y + 37, kind="red")
            x += wide + 6
        d.text(160, y + 58, note, style="small muted")
    left = 160 + 250 + 6
    d.line(left, 24 + 82 * 3 - 6, left + 110 + 72 + 58 + 12, 24 + 82 * 3 - 6, kind="green")

    d.box(160, 436, 20, 14, kind="orange")
    d.text(187, 448, "made by a batch", style="small")
    d.box(300, 436, 20, 14, kind="green")
    d.text(327, 448, "made by compaction", style="small")
    d.line(470, 434, 470, 452, kind="red")
    d.text(480, 448, "deleted subscription", style="small")
    return d.svg()
