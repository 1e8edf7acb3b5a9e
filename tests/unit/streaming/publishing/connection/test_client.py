"""Connections of a client that is closed early."""

from __future__ import annotations

import gc
import socket
import warnings
from contextlib import closing

import pytest

from streaming.publishing.connection.client import Client


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
