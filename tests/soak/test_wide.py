"""The short form of `python -m tests.soak.wide`."""

from __future__ import annotations

from tests.soak import wide


def test_each_subscriber_gets_an_event_that_all_match_once() -> None:
    outcome = wide.run(701)
    assert outcome.right
    assert outcome.deliveries == 701 + 2 * 100 + 1
    assert outcome.most_mb.keys() == outcome.before_mb.keys() == {"driver", "JVM", "workers"}
    assert all(mb > 10 for mb in outcome.most_mb.values())
