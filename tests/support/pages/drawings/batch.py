"""Draw the life of a batch, with its two kinds of transactions."""

from __future__ import annotations

from tests.support.pages.drawings.svg import Drawing


def drawing() -> str:
    d = Drawing(
        "Life of a batch",
        "In an epoch of up to four seconds each task fetches, matches and publishes several times, with one state. "
        "Each transaction of a slot has deliveries, dead letters and the offsets of their events. After the epoch "
        "the driver commits one transaction with the statuses of changes and the offsets of the subscriptions "
        "topic, and applies the changes to the state. The next epoch begins with the next state.",
        860,
        400,
    )
    d.text(20, 98, "driver", style="strong")
    d.label(20, 198, "task 0", "slot 0")
    d.label(20, 288, "task 1", "slot 1")

    d.span(160, 520, 44, "epoch: up to 4 s, state N")
    d.span(530, 738, 44, "between two epochs")
    d.span(748, 850, 44, "state N + 1")

    d.box(80, 72, 80, 44, "start", "the epoch", kind="plain")
    d.box(534, 72, 106, 44, "commit", "statuses", kind="orange", style="strong")
    d.box(650, 72, 86, 44, "apply", "changes", kind="plain")
    d.box(752, 72, 98, 44, "start the", "next epoch", kind="plain")

    for y, begins in ((180, (168, 288, 408)), (270, (168, 328))):
        for x in begins:
            wide = 50 if y == 180 else 90
            d.box(x, y, wide, 44, *(("fetch,", "match") if y == 180 else ("fetch, match",)), kind="plain")
            d.box(x + wide, y, 64, 44, "commit", kind="green", style="strong")
    d.box(753, 180, 97, 44, "fetch, match", kind="plain")
    d.box(753, 270, 97, 44, "fetch, match", kind="plain")

    d.arrow((120, 116), (120, 202), (168, 202))
    d.line(120, 202, 120, 292)
    d.arrow((120, 292), (168, 292))
    d.arrow((522, 202), (545, 202), (545, 116))
    d.line(482, 292, 545, 292)
    d.line(545, 292, 545, 202)
    d.text(556, 172, "counts, compiled changes,", style="small muted")
    d.text(556, 188, "the producer of each slot's", style="small muted")
    d.text(556, 204, "next transaction", style="small muted")
    d.arrow((800, 116), (800, 180))

    d.box(80, 344, 20, 14, kind="green")
    d.text(108, 356, "transaction of a slot: deliveries, dead letters, the offsets of their events", style="small")
    d.box(80, 370, 20, 14, kind="orange")
    d.text(
        108,
        382,
        "transaction of the driver: statuses of changes, the offsets of the subscriptions topic",
        style="small",
    )
    return d.svg()
