"""Read a setting NAME=VALUE from a command line."""

from __future__ import annotations

from argparse import ArgumentTypeError


def setting(text: str) -> tuple[str, str]:
    """Return its name and its value: `type=setting` of an argument that may be given several times."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value
