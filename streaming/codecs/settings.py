"""The schema registry's address, as a value that is sent to the workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streaming import secret_files
from streaming.errors import JobError

# The names are those of the registry's other clients.
OPTIONS = (
    "basic.auth.user.info",  # name:password
    "bearer.auth.token",
    "ssl.ca.location",  # PEM files, where the workers run
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "timeout",  # seconds, of one try
    "max.retries",
)
_LEAST = {"timeout": 1, "max.retries": 0}
_NEEDS = {"ssl.key.location": "ssl.certificate.location", "ssl.key.password": "ssl.certificate.location"}


@dataclass(frozen=True)
class RegistrySettings:
    url: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # they hold secrets

    def __post_init__(self) -> None:
        options = dict(self.options)
        for name, value in self.options:
            if name not in OPTIONS:
                raise _wrong(f"unknown option {name!r}; known: {', '.join(OPTIONS)}")
            if name in _LEAST and not (value.isdecimal() and int(value) >= _LEAST[name]):
                raise _wrong(f"{name} = {value!r} must be a number of at least {_LEAST[name]}")
            if name in _NEEDS and _NEEDS[name] not in options:
                raise _wrong(f"{name} has no effect without {_NEEDS[name]}")
        if ":" not in options.get("basic.auth.user.info", ":"):
            raise _wrong("basic.auth.user.info must be name:password, with a colon")
        if {"basic.auth.user.info", "bearer.auth.token"} <= options.keys():
            raise _wrong("basic.auth.user.info and bearer.auth.token exclude each other; set only one")

    @classmethod
    def of(cls, url: str, options: Mapping[str, str]) -> RegistrySettings | None:
        """The settings; None without a url: there is no registry. Raises JobError."""
        return cls(url, tuple(sorted(secret_files.read("schema_registry.options", options).items()))) if url else None


def _wrong(why: str) -> JobError:
    return JobError(f"schema_registry.options: {why}")
