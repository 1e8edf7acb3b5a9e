"""Read the files that options name: `"sasl.password" = "${file:/run/secrets/kafka}"`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress

from streaming.errors import JobError

MAX_BYTES = 16_384  # of a file, the end of its line included
_REFERENCE = re.compile(r'("?)\$\{file:([^}]*)(\}?)')
_LOGIN = ("sasl.username", "sasl.password")


def read(section: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a section with the content of files in place of their references. Raises JobError."""
    return {name: _read(f"{section}.{name}", str(value)) for name, value in options.items()}


def login(options: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the user name and the password of `[kafka.client]` as their files have them now. None if neither is in a
    file, or a file cannot be read: a client then keeps those that it has."""
    of_login = {name: options[name] for name in _LOGIN if name in options}
    if len(of_login) < len(_LOGIN) or not any(map(_REFERENCE.search, of_login.values())):
        return None
    with suppress(JobError):
        user, password = read("kafka.client", of_login).values()
        return user, password
    return None


def _read(name: str, value: str) -> str:
    def content(reference: re.Match[str]) -> str:
        quote, path, end = reference.groups()
        if not end or not os.path.isabs(path):
            raise JobError(f"{name}: write the absolute path of a file, such as ${{file:/run/secrets/kafka}}")
        secret = _line(name, path)
        # Within a quoted string of sasl.jaas.config
        return quote + (secret.replace("\\", "\\\\").replace('"', '\\"') if quote else secret)

    return _REFERENCE.sub(content, value)


def _line(name: str, path: str) -> str:
    """Return the only line of a file, without its end."""
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise JobError(f"{name}: the file {path} cannot be read: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise JobError(f"{name}: the file {path} has more than {MAX_BYTES:,} bytes")
    try:
        line = content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise JobError(f"{name}: the file {path} is not UTF-8") from None
    if not line:
        raise JobError(f"{name}: the file {path} is empty")
    if "\n" in line or "\r" in line:
        raise JobError(f"{name}: the file {path} has more than one line")
    return line
