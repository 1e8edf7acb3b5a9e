"""Connections that are closed early, silent, throttled, or refused."""

from __future__ import annotations

import gc
import socket
import ssl
import time
import warnings
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors

from streaming.errors import BrokerUnreachable, Unauthenticated
from streaming.publishing.connection import client as connections
from streaming.publishing.connection.client import Client, ConnectionLost


@pytest.mark.parametrize("turns", [0, 1, 2, 5])
def test_a_client_closed_while_it_connects_leaves_no_socket(turns: int) -> None:
    """The loop of the client made `turns` turns since the connection was begun."""

    async def connect(client: Client) -> None:
        (broker,) = client._manager.cluster.bootstrap_brokers()
        client._manager.get_connection(broker.node_id)
        for _ in range(turns):
            await client._net.sleep(0)

    with closing(socket.create_server(("127.0.0.1", 0))) as server, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        client = Client(f"127.0.0.1:{server.getsockname()[1]}", {})
        client.run(connect, client)
        client.close()
        client.close()  # once more does nothing
        del client
        gc.collect()
    assert [str(warning.message) for warning in caught if "socket" in str(warning.message)] == []


def test_a_broker_that_is_silent_during_the_handshake_is_left() -> None:
    options = {"security.protocol": "SSL", "socket.connection.setup.timeout.ms": "100"}
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with closing(Client(address, options, timeout_s=1.0)) as client, pytest.raises(BrokerUnreachable):
            client.partitions(["events"])


@pytest.mark.parametrize(
    ("alert", "refused"),
    [
        ("TLSV1_ALERT_UNKNOWN_CA", True),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", True),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", True),
        ("SSLV3_ALERT_BAD_RECORD_MAC", False),
        ("TLSV1_ALERT_INTERNAL_ERROR", False),
        ("TLSV1_ALERT_USER_CANCELLED", False),
    ],
)
def test_an_alert_of_tls_ends_the_job_only_if_it_refuses_the_client(alert: str, refused: bool) -> None:
    with closing(Client("127.0.0.1:9", {})) as client:
        failed = errors.KafkaConnectionError(ssl.SSLError(1, f"[SSL: {alert}] {alert.lower()} (_ssl.c:2580)"))
        found = client._translated(failed, client.attempt(), "Produce")
    assert isinstance(found, Unauthenticated if refused else ConnectionLost)


def test_a_throttled_connection_is_waited_for_and_that_is_no_failure() -> None:
    connection: Any = SimpleNamespace(paused={"throttle"}, closed=False)

    async def wait(client: Client) -> float:
        attempt = client.attempt()
        until = attempt.until
        client._net.call_at(time.monotonic() + 0.1, lambda: connection.paused.clear())
        await client._unpaused(connection, attempt)
        return attempt.until - until

    with closing(Client("127.0.0.1:9", {})) as client:
        assert client.run(wait, client) >= 0.1
    assert not connection.paused


def test_a_connection_that_is_throttled_beyond_reason_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "THROTTLED_S", 0.1)
    closed: list[Exception] = []
    connection: Any = SimpleNamespace(paused={"throttle"}, closed=False, close=closed.append)
    with closing(Client("127.0.0.1:9", {})) as client:
        client.run(client._unpaused, connection, client.attempt())
    assert "throttled" in str(closed)
