"""Give librdkafka's clients the user and password that are in files, for their next connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from streaming import secret_files


class Client(Protocol):
    def set_sasl_credentials(self, username: str, password: str, /) -> object: ...


def renew(client: Client, options: Mapping[str, str]) -> bool:
    """Call before a client of these options is used again: by itself it keeps what it was created with. Return whether
    it has got a login from files."""
    login = secret_files.login(options)
    if login is not None:
        client.set_sasl_credentials(*login)
    return login is not None
