"""Draw a crash between two commits of one batch, and the recovery."""

from __future__ import annotations

from tests.support.pages.drawings.svg import Drawing


def drawing() -> str:
    d = Drawing(
        "A crash between two commits",
        "Slot 0 has committed the events of partition 0. The task of slot 1 dies with an open transaction. The "
        "driver claims its offsets, fences all slots, which aborts the open transaction, reads the committed "
        "offsets and claims again. The next epoch matches the events of partition 1 with the same state. Then the "
        "driver commits the changes. Each event is delivered once.",
        860,
        430,
    )
    d.label(20, 78, "slot 0", "partition 0")
    d.label(20, 168, "slot 1", "partition 1")
    d.text(20, 268, "driver", style="strong")
    d.text(20, 350, "committed", style="strong")
    d.text(20, 367, "offsets", style="strong")

    d.span(110, 345, 38, "state N")
    d.span(355, 588, 38, "recovery")
    d.span(598, 740, 38, "state N again")
    d.span(750, 850, 38, "N + 1")

    d.line(276, 102, 276, 332, kind="green", dashed=True)  # behind the boxes
    d.line(698, 192, 698, 332, kind="green", dashed=True)
    d.box(110, 58, 130, 44, "events 0 to 99", kind="plain")
    d.box(240, 58, 72, 44, "commit", kind="green", style="strong")
    d.box(110, 148, 130, 44, "events 0 to 39", kind="plain")
    d.box(240, 148, 72, 44, "open", kind="red", style="strong", dashed=True)
    d.cross(326, 170)
    d.text(326, 204, "task killed", anchor="middle", style="small red-text")

    steps = (("claim", 358), ("fence", 416), ("read", 474), ("claim", 532))
    for name, x in steps:
        d.box(x, 244, 54, 40, name, kind="plain")
    d.arrow((326, 212), (326, 264), (358, 264), kind="red")
    d.arrow((443, 244), (443, 182), (316, 182), kind="orange", dashed=True)
    d.text(452, 204, "aborts the open", style="small")
    d.text(452, 220, "transaction", style="small")

    d.arrow((586, 264), (592, 264), (592, 170), (604, 170))
    d.box(604, 148, 76, 44, "events", "0 to 39", kind="plain")
    d.box(680, 148, 62, 44, "commit", kind="green", style="strong")
    d.arrow((722, 192), (722, 264), (752, 264))
    d.box(752, 238, 96, 52, "commit", "statuses", kind="orange", style="strong")

    d.box(110, 332, 160, 44, "p0: 0, p1: 0", kind="blue")
    d.box(276, 332, 416, 44, "p0: 100, p1: 0", kind="blue")
    d.box(698, 332, 152, 44, "p0: 100, p1: 40", kind="blue")
    d.text(
        110,
        408,
        "Readers see the events of partition 0 after the first commit, the events of partition 1 after the second.",
        style="small",
    )
    return d.svg()
