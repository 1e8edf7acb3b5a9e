"""Draw a change, its status, and the first event it applies to."""

from __future__ import annotations

from tests.support.pages.drawings.svg import Drawing

STEP = 60


def drawing() -> str:
    d = Drawing(
        "From a change to the first event it applies to",
        "The events topic has the offsets 5 to 12, the subscriptions topic the offsets 0 to 3. Batch N reads "
        "events 5 to 8 and the change with offset 2; its events are matched by version 2. The status of the change "
        "names version 3, and event 9 as the first event that version 3 matches. Batch N + 1 begins with event 9.",
        800,
        400,
    )
    d.text(270, 32, "batch N", anchor="middle", style="strong")
    d.text(550, 32, "batch N + 1", anchor="middle", style="strong")
    d.line(397, 18, 397, 285, dashed=True)

    d.label(20, 88, "events", "partition 0")
    for offset in range(5, 13):
        x = 150 + STEP * (offset - 5) + (20 if offset > 8 else 0)
        d.box(x, 66, STEP - 6, 46, str(offset), kind="green" if offset < 9 else "orange", style="strong")
    d.text(267, 134, "delivered with ce_matchversion 2", anchor="middle", style="green-text")
    d.text(452, 134, "delivered with ce_matchversion 3", style="orange-text")

    d.label(20, 214, "subscriptions", "partition 0")
    for offset in range(2):
        d.box(150 + STEP * offset, 192, STEP - 6, 46, str(offset), kind="green", style="strong")
    d.box(310, 192, STEP - 6, 46, "2", kind="orange", style="strong")
    d.box(520, 192, STEP - 6, 46, "3", kind="plain", style="strong")
    d.text(207, 260, "read before batch N", anchor="middle", style="small muted")
    d.text(337, 260, "the change", anchor="middle", style="small muted")
    d.text(547, 260, "the next change", anchor="middle", style="small muted")

    d.label(20, 322, "status", "of the change")
    d.box(230, 292, 214, 84, kind="blue")
    d.text(244, 316, "version: 3", style="")
    d.text(244, 338, 'in_force_from: {"0": 9}', style="")
    d.text(244, 360, 'read_up_to: {"0": 3}', style="")
    d.arrow((337, 266), (337, 292), kind="orange")
    d.arrow((444, 334), (480, 334), (480, 206), (437, 206), (437, 112), kind="orange")
    d.text(492, 320, "the first event that", style="small")
    d.text(492, 336, "the change applies to", style="small")
    return d.svg()
