"""A client for topics ends with its last user, also after a request that failed."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from contextlib import suppress

import pytest

from streaming.checks.cluster_info import ClusterInfo
from streaming.errors import JobError
from streaming.kafka.clients import Cluster


@pytest.mark.parametrize(
    "request_",
    [
        lambda info, topic: info._topics.counts([topic]),
        lambda info, topic: info._topics.rights([topic]),
        lambda info, topic: info._topics.required([topic]),
        lambda info, topic: info._topics.firsts([(topic, 0)], 0.1),
        lambda info, topic: info._topics.delete([topic]),
        lambda info, topic: info.rejected_creation(topic + "/"),
        lambda info, topic: info.newest_ms({topic: 1}),
        lambda info, topic: info.settings(topic),
    ],
    ids=["counts", "rights", "required", "firsts", "delete", "rejected_creation", "newest_ms", "settings"],
)
def test_a_failed_request_does_not_keep_the_client_and_its_threads(
    request_: Callable[[ClusterInfo, str], object], kafka: str, name: str
) -> None:
    info = ClusterInfo(Cluster(kafka, {}))
    admins = weakref.ref(info._topics), weakref.ref(info)
    gc.collect()
    gc.disable()
    try:
        with suppress(JobError):
            request_(info, f"{name}.missing")
        info.close()
        del info
        assert [admin() for admin in admins] == [None, None]
    finally:
        gc.enable()
