"""Draw the topics, the driver, the executors, their transactions and the checkpoint."""

from __future__ import annotations

from tests.support.pages.drawings.svg import Drawing


def drawing() -> str:
    d = Drawing(
        "Architecture of Sluice",
        "Tasks on executors fetch events and changes from Kafka, match, and publish deliveries and dead letters "
        "with the offsets of their events, in the transactions of their slots. The driver keeps the state, opens "
        "all producers, and publishes statuses with the offsets of the subscriptions topic in a transaction of its "
        "own. The state is saved in the checkpoint.",
        860,
        570,
    )
    d.text(95, 36, "Kafka, input", anchor="middle", style="muted")
    d.text(415, 36, "one Spark query", anchor="middle", style="muted")
    d.text(748, 36, "Kafka, output", anchor="middle", style="muted")

    d.box(20, 70, 150, 70, "events", "several partitions", kind="blue", style="strong")
    d.box(20, 180, 150, 70, "subscriptions", "compacted, key: id", kind="blue", style="strong")

    d.box(220, 50, 390, 400, kind="frame")
    for x, tasks in ((238, (0, 1)), (424, (2, 3))):
        d.box(x, 66, 168, 184, kind="plain")
        d.text(x + 84, 88, "executor", anchor="middle", style="strong")
        for row, number in enumerate(tasks):
            d.box(
                x + 11, 100 + 66 * row, 146, 54, f"task {number}, slot {number}", "fetch, match, publish", kind="green"
            )

    d.arrow((170, 105), (238, 105))
    d.text(180, 97, "fetch", style="small muted")
    d.arrow((170, 215), (238, 215))
    d.text(180, 207, "fetch", style="small muted")

    d.box(238, 340, 354, 92, kind="orange")
    d.text(415, 364, "driver", anchor="middle", style="strong")
    d.text(415, 384, "keeps the state, starts epochs,", anchor="middle", style="small")
    d.text(415, 401, "opens every producer (fencing),", anchor="middle", style="small")
    d.text(415, 418, "applies and commits changes", anchor="middle", style="small")
    d.arrow((290, 340), (290, 250))
    d.text(300, 290, "segments,", style="small muted")
    d.text(300, 306, "producers", style="small muted")
    d.arrow((470, 250), (470, 340))
    d.text(480, 290, "compiled", style="small muted")
    d.text(480, 306, "changes, counts", style="small muted")

    for y, topic in ((62, "deliveries.alice"), (112, "deliveries.bob"), (162, "deadletters")):
        d.box(660, y, 176, 38, topic, kind="blue", style="strong")
        d.arrow((610, y + 19), (660, y + 19), kind="green")
    d.box(660, 236, 176, 62, "committed offsets", "group query.name", kind="blue", style="strong")
    d.arrow((610, 254), (660, 254), kind="green")
    d.arrow((592, 362), (634, 362), (634, 280), (660, 280), kind="orange", dashed=True)
    d.box(660, 366, 176, 38, "subscriptions.status", kind="blue", style="strong")
    d.arrow((592, 385), (660, 385), kind="orange", dashed=True)

    d.box(
        238, 490, 354, 56, "checkpoint: the saved state", "segments and manifests; a directory or a URL", style="strong"
    )
    d.arrow((370, 432), (370, 490))
    d.text(360, 474, "saved every 30 s", anchor="end", style="small muted")
    d.arrow((440, 490), (440, 432))
    d.text(450, 474, "read at a start", style="small muted")

    d.line(636, 452, 666, 452, kind="green")
    d.text(674, 456, "transaction of a slot:", style="small")
    d.text(674, 472, "deliveries, dead letters,", style="small")
    d.text(674, 488, "offsets of their events", style="small")
    d.line(636, 512, 666, 512, kind="orange", dashed=True)
    d.text(674, 516, "transaction of the driver:", style="small")
    d.text(674, 532, "statuses, offsets of", style="small")
    d.text(674, 548, "the subscriptions topic", style="small")
    return d.svg()
