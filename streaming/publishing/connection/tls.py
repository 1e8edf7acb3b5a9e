"""The TLS context of a client, from librdkafka's options."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from streaming.errors import JobError

NAMES = (
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.crl.location",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "ssl.key.password",
    "ssl.cipher.suites",
    "ssl.endpoint.identification.algorithm",
    "enable.ssl.certificate.verification",
)


def context(options: Mapping[str, str]) -> ssl.SSLContext:
    """Raises JobError if a file or a PEM cannot be used."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.check_hostname = options.get("ssl.endpoint.identification.algorithm", "https").lower() != "none"
    if options.get("enable.ssl.certificate.verification", "true").lower() in ("false", "f", "0"):
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    try:
        _load_authorities(made, options)
        _load_certificate(made, options)
        if suites := options.get("ssl.cipher.suites"):
            made.set_ciphers(suites)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise JobError(
            f"kafka.client cannot be used: {error} ({', '.join(n for n in NAMES if n in options)})"
        ) from None
    return made


def _load_authorities(made: ssl.SSLContext, options: Mapping[str, str]) -> None:
    place, text = options.get("ssl.ca.location"), options.get("ssl.ca.pem")
    if text:
        made.load_verify_locations(cadata=text)
    elif place and place != "probe":
        made.load_verify_locations(**({"capath": place} if os.path.isdir(place) else {"cafile": place}))
    else:
        made.load_default_certs()
    if revoked := options.get("ssl.crl.location"):
        made.load_verify_locations(cafile=revoked)
        made.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _load_certificate(made: ssl.SSLContext, options: Mapping[str, str]) -> None:
    with _file(options, "ssl.certificate") as certificate, _file(options, "ssl.key") as key:
        if certificate or key:
            if not (certificate and key):
                raise ValueError("a certificate needs its key, and a key its certificate")
            made.load_cert_chain(certificate, key, options.get("ssl.key.password", ""))


@contextmanager
def _file(options: Mapping[str, str], name: str) -> Iterator[str | None]:
    """Return the path of the file, or of a temporary file with the PEM: Python reads certificates from files only."""
    text = options.get(f"{name}.pem")
    if not text:
        yield options.get(f"{name}.location")
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # only its owner can read it
        file.write(text)
        file.flush()
        yield file.name
