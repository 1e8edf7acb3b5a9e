"""Access tokens for SASL/OAUTHBEARER, by the client credentials of OpenID Connect."""

from __future__ import annotations

import base64
import http.client
import json
import math
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from streaming import secret_files
from streaming.errors import JobError, Unauthenticated

NAMES = (
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.grant.type",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.token.endpoint.url",
    "https.ca.location",
    "https.ca.pem",
)
_NEEDED = ("sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret")
_TIMEOUT_S = 10.0
_MOST_BYTES = 1 << 20  # of an answer
_READ_BYTES = 1 << 16
_LIFETIME_S = 60.0  # of a token that is returned without one
_USED_FOR = 0.8  # of its lifetime
_BUSY = (408, 425, 429)  # answers after which the same request may succeed


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """A token of the endpoint, requested when a connection needs one, and used until shortly before it expires.
    Each request reads the file of the client's secret anew, if it is in one."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__()
        self._options = {name: options[name] for name in _NEEDED}
        options = secret_files.read("kafka.client", options)
        self._url = options["sasl.oauthbearer.token.endpoint.url"]
        form = {"grant_type": "client_credentials"}
        if scope := options.get("sasl.oauthbearer.scope"):
            form["scope"] = scope
        self._form = urllib.parse.urlencode(form).encode()
        pairs = options.get("sasl.oauthbearer.extensions", "")
        self._extensions = dict(pair.split("=", 1) for pair in pairs.split(",") if "=" in pair)
        try:
            self._context = ssl.create_default_context(
                cafile=options.get("https.ca.location"), cadata=options.get("https.ca.pem")
            )
        except (OSError, ValueError) as error:
            raise JobError(
                f"https.ca.location or https.ca.pem in kafka.client cannot be used: {error}; it must have "
                "certificates in PEM"
            ) from None
        self._token = ""
        self._until = 0.0  # monotonic s

    def token(self) -> str:
        if time.monotonic() >= self._until:
            self._token, lifetime_s = self._fetched()
            self._until = time.monotonic() + _USED_FOR * lifetime_s
        return self._token

    def extensions(self) -> dict[str, str]:
        return self._extensions

    def _fetched(self) -> tuple[str, float]:
        _, *client = secret_files.read("kafka.client", self._options).values()
        user = base64.b64encode(":".join(urllib.parse.quote(part, safe="") for part in client).encode()).decode()
        headers = {"Authorization": f"Basic {user}", "Accept": "application/json"}
        request = urllib.request.Request(self._url, self._form, headers)
        secure = self._context if self._url.startswith("https") else None
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=secure) as response:
                return _token(_body(response))
        except urllib.error.HTTPError as error:
            error.close()
            if error.code < 500 and error.code not in _BUSY:
                raise Unauthenticated(f"{self._url} returned no token (kafka.client): {error.reason}") from None
            raise
        except http.client.InvalidURL as error:
            raise JobError(f"sasl.oauthbearer.token.endpoint.url in kafka.client cannot be used: {error}") from None
        except http.client.HTTPException as error:
            raise ConnectionError(f"{self._url} returned half an answer: {error!r}") from None
        except (ValueError, TypeError, RecursionError):
            raise Unauthenticated(f"{self._url} returned no token (kafka.client)") from None


def _body(response: Any) -> bytes:
    """Return the body. Raises TimeoutError if it takes too long, ValueError if it is too large."""
    until = time.monotonic() + _TIMEOUT_S
    body = b""
    while piece := response.read1(_READ_BYTES):
        body += piece
        if len(body) > _MOST_BYTES:
            raise ValueError("too large")
        if time.monotonic() > until:
            raise TimeoutError(f"no whole answer within {_TIMEOUT_S:g} s")
    return body


def _token(body: bytes) -> tuple[str, float]:
    """Return the token and its lifetime in s. Raises ValueError or TypeError if there is none."""
    answer = json.loads(body)
    if not isinstance(answer, dict):
        raise TypeError("not an object")
    token, lifetime = answer.get("access_token"), answer.get("expires_in")
    # Control characters separate the fields of the message that carries it.
    if not (isinstance(token, str) and token and token.isascii() and token.isprintable()):
        raise ValueError("no token")
    lifetime_s = _LIFETIME_S if lifetime is None else float(lifetime)
    if not (math.isfinite(lifetime_s) and lifetime_s >= 0):
        raise ValueError("no lifetime")
    return token, lifetime_s


def provider(options: Mapping[str, str]) -> ClientCredentials:
    """Raises JobError if the options select another way."""
    if options.get("sasl.oauthbearer.method", "default").lower() != "oidc":
        raise JobError("kafka.client has sasl.mechanism = 'OAUTHBEARER', which needs sasl.oauthbearer.method = oidc")
    if (grant := options.get("sasl.oauthbearer.grant.type", "client_credentials")) != "client_credentials":
        raise JobError(
            f"kafka.client has sasl.oauthbearer.grant.type = {grant!r}; executors support client_credentials"
        )
    if missing := [name for name in _NEEDED if name not in options]:
        raise JobError(f"kafka.client has sasl.mechanism = 'OAUTHBEARER', which needs {', '.join(missing)}")
    return ClientCredentials(options)
