"""Ports for servers on this machine: none is given twice, and none that something has bound."""

from __future__ import annotations

import itertools
import socket

import pytest

from rig import broker
from rig.broker import LOOPBACK, free_port


class Ports:
    """Draws the ports it was made with, in turn."""

    def __init__(self, *ports: int) -> None:
        self._ports = itertools.chain(ports)

    def randrange(self, low: int, high: int) -> int:
        return next(self._ports)


def test_no_port_is_given_twice_although_it_is_drawn_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = free_port(), free_port()
    monkeypatch.setattr(broker, "_given_ports", set())
    monkeypatch.setattr(broker, "_ports", Ports(first, first, second))
    assert [free_port(), free_port()] == [first, second]


def test_a_bound_port_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    free = free_port()
    monkeypatch.setattr(broker, "_given_ports", set())
    with socket.socket() as server:
        server.bind((LOOPBACK, 0))
        monkeypatch.setattr(broker, "_ports", Ports(server.getsockname()[1], free))
        assert free_port() == free
