"""Decide who may see the console: it shows subscriptions and events."""

from __future__ import annotations

import base64
import binascii
import hmac
from dataclasses import dataclass
from http import HTTPStatus

UNREACHABLE = (
    "the console shows subscriptions and events, so on another address than a loopback one it answers only with a "
    "token: set monitoring.token\n"
)
NEEDS_TOKEN = (
    "the console needs the token of monitoring.token: as the password, with any user, or in the header "
    "Authorization: Bearer TOKEN\n"
)


@dataclass(frozen=True)
class Access:
    token: str = ""  # that requests need; "": none
    is_loopback: bool = True

    @property
    def is_possible(self) -> bool:
        """Whether anybody may see the console."""
        return self.is_loopback or bool(self.token)

    def rejection(self, authorization: str) -> tuple[HTTPStatus, str] | None:
        """Why a request with this header is rejected; None if it is not."""
        if not self.is_possible:
            return HTTPStatus.FORBIDDEN, UNREACHABLE
        if self.token and not hmac.compare_digest(_given(authorization), self.token.encode()):
            return HTTPStatus.UNAUTHORIZED, NEEDS_TOKEN
        return None


def _given(authorization: str) -> bytes:
    """The token in an Authorization header; empty if there is none."""
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return credentials.strip().encode("utf-8", "surrogateescape")
    if scheme.lower() != "basic":
        return b""
    try:
        return base64.b64decode(credentials.strip(), validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        return b""
