"""Fetch schemas from a schema registry over its REST interface.

A schema never changes under its id, nor under its subject and version: what was answered once is kept for ever. A
schema that is new to this process is fetched when a record first names it.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import orjson
import urllib3

from streaming.codecs.contract import Undecodable
from streaming.codecs.settings import RegistrySettings
from streaming.errors import JobError, RegistryUnreachable

MAX_ANSWER_BYTES = 1_000_000
READ_BYTES = 1 << 16  # of an answer at once
MAX_REFERENCES = 100  # schemas that one needs, those that they need included
GREATEST_ID = 2**31 - 1
REMEMBER_UNKNOWN_S = 5.0  # so that many records of one unknown id are not as many requests
WAIT_S, LONGEST_WAIT_S = 0.5, 120.0  # before the third try, doubled with each one after
MAX_REDIRECTS = 3
BUSY = (429, 500, 502, 503, 504)
UNKNOWN = (40401, 40402, 40403)  # the registry's own codes: no such subject, version, schema


@dataclass(frozen=True)
class Reference:
    """A schema that another one needs; `name` is its name in that other one."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class Schema:
    type: str
    text: str
    references: tuple[Reference, ...]


class Registry:
    """Raises Undecodable for a schema that the registry lacks, and JobError when it gives no answer."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._url = settings.url.rstrip("/")
        options = dict(settings.options)
        headers = {
            "accept": "application/vnd.schemaregistry.v1+json, application/json",
            "accept-encoding": "identity",  # so that no answer is larger than its bytes
            "connection": "close",
        }
        if "basic.auth.user.info" in options:
            headers["authorization"] = f"Basic {b64encode(options['basic.auth.user.info'].encode()).decode()}"
        if "bearer.auth.token" in options:
            headers["authorization"] = f"Bearer {options['bearer.auth.token']}"
        self._timeout_s = float(options.get("timeout", 10))
        self._retries = int(options.get("max.retries", 3))
        self._http = urllib3.PoolManager(
            headers=headers,
            timeout=self._timeout_s,
            retries=urllib3.Retry(
                total=None,  # `_tried` tries again
                connect=0,
                read=0,
                status=0,
                other=0,
                redirect=MAX_REDIRECTS,
                respect_retry_after_header=False,  # it may demand hours; the job fails sooner
            ),
            ca_certs=options.get("ssl.ca.location"),
            cert_file=options.get("ssl.certificate.location"),
            key_file=options.get("ssl.key.location"),
            key_password=options.get("ssl.key.password"),
        )
        self._answers: dict[str, Schema] = {}
        self._unknown: dict[str, tuple[float, str]] = {}  # until when, and what the registry said

    def by_id(self, id: int, type: str, format: str | None = None) -> Schema:
        """The schema of a record. `type` is the only type that the caller can use; `format` is the format to return it
        in.

        The type is requested first: registries do not define a `format` that the type lacks.
        """
        if id > GREATEST_ID:  # the registry would not understand the question
            raise Undecodable(f"the schema registry has no schema {id}")
        schema = self._get(f"schemas/ids/{id}", f"schema {id}")
        if schema.type != type:
            raise Undecodable(f"schema {id} has the type {schema.type}, but events.codec needs {type}")
        return self._get(f"schemas/ids/{id}", f"schema {id}", format=format) if format else schema

    def referenced(self, reference: Reference, format: str | None = None) -> Schema:
        path = f"subjects/{quote(reference.subject, safe='')}/versions/{reference.version}"
        # Records of a deleted version still need it.
        options = {"deleted": "true"} | ({"format": format} if format else {})
        return self._get(path, f"version {reference.version} of the subject {reference.subject!r}", **options)

    def _get(self, path: str, what: str, **options: str) -> Schema:
        path = f"{path}?{urlencode(options)}" if options else path
        if path not in self._answers:
            until, reason = self._unknown.get(path, (0.0, ""))
            if time.monotonic() < until:
                raise Undecodable(reason)
            self._answers[path] = self._asked(path, what)
        return self._answers[path]

    def _asked(self, path: str, what: str) -> Schema:
        where = f"{self._url}/{path}"
        status, body = self._tried(where)
        document = _document(body)
        reason = ""
        if status == 404 and document.get("error_code") in UNKNOWN:
            reason = f"{what} is not known to the registry"
        if len(body) > MAX_ANSWER_BYTES:
            reason = f"{what} is larger than {MAX_ANSWER_BYTES:,} bytes"
        if reason:
            now = time.monotonic()
            self._unknown = {p: known for p, known in self._unknown.items() if known[0] > now}
            self._unknown[path] = now + REMEMBER_UNKNOWN_S, reason
            raise Undecodable(reason)
        if status in (401, 403):
            raise JobError(
                f"the schema registry rejects {where}: status {status}; set the credentials in schema_registry.options"
            )
        schema = _schema(document) if status == 200 else None
        if schema is None:
            raise JobError(f"{where} is not a schema registry: status {status}; correct schema_registry.url")
        return schema

    def _tried(self, where: str) -> tuple[int, bytes]:
        """Return the status and the body, which is cut off beyond MAX_ANSWER_BYTES. Raises RegistryUnreachable."""
        reason = ""
        for retry in range(self._retries + 1):
            if retry > 1:
                time.sleep(min(WAIT_S * 2 ** (retry - 2), LONGEST_WAIT_S))
            try:
                status, body = self._tried_once(where)
            except (urllib3.exceptions.HTTPError, ValueError) as error:  # the second: a redirect to what is no address
                reason = f"does not answer: {error}"
                continue
            if status not in BUSY:
                return status, body
            reason = f"is busy: status {status}"
        raise RegistryUnreachable(f"the schema registry at {self._url} {reason}")

    def _tried_once(self, where: str) -> tuple[int, bytes]:
        response = self._http.request("GET", where, preload_content=False)
        until = time.monotonic() + self._timeout_s
        body = b""
        try:
            if response.status not in BUSY:
                while len(body) <= MAX_ANSWER_BYTES and (piece := response.read1(READ_BYTES, decode_content=False)):
                    body += piece
                    if time.monotonic() > until:
                        raise urllib3.exceptions.TimeoutError(f"no whole answer within {self._timeout_s:g} s")
        finally:
            response.close()
        return response.status, body


def _document(body: bytes) -> Mapping[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}


def _schema(document: Mapping[str, Any]) -> Schema | None:
    # Registries leave the type out for the one that they knew first.
    type, text = document.get("schemaType") or "AVRO", document.get("schema")
    listed = document.get("references") or []
    if not (isinstance(type, str) and isinstance(text, str) and isinstance(listed, list)):
        return None
    references = [_reference(one) for one in listed]
    named = tuple(reference for reference in references if reference is not None)
    return Schema(type, text, named) if len(named) == len(references) else None


def _reference(document: Any) -> Reference | None:
    if not isinstance(document, dict):
        return None
    name, subject, version = (document.get(key) for key in ("name", "subject", "version"))
    if not (isinstance(name, str) and isinstance(subject, str) and isinstance(version, int)):
        return None
    return Reference(name, subject, version)
