"""Write the command that changes settings of topics, as it can be pasted into a shell."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from config.model import Settings


def altered(settings: Settings, values: Mapping[str, str], topic: str | None = None) -> str:
    """The command that gives these settings to a topic, or without one to all delivery topics.

    Kafka's tool divides the list at commas and takes a value with commas in brackets. A space would end the argument.
    """
    server = f"--bootstrap-server {shlex.quote(settings.kafka.bootstrap_servers)}"
    listed = ",".join(f"{key}=[{value}]" if "," in value else f"{key}={value}" for key, value in values.items())
    alter, add = f"kafka-configs.sh {server} --alter --entity-type topics", f"--add-config {shlex.quote(listed)}"
    if topic is not None:
        return f"{alter} --entity-name {topic} {add}"
    prefix = settings.deliveries.prefix.replace(".", "[.]")
    topics = f"kafka-topics.sh {server} --list | grep '^{prefix}'"
    return f'for topic in $({topics}); do {alter} --entity-name "$topic" {add}; done'
