"""Collect the fields that subscriptions name; only these are read from an event."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from matchers.index.kernels.json import DEPTH, ROOT, Memory, Names, key_hash
from matchers.language.model import Path

# A name that JSON writes with an escape is no matter for kernels.
_PLAIN = re.compile(r'[^\x00-\x1f"\\\ud800-\udfff]*')


@dataclass
class Node:
    """A name on the path to a field, or a field, or both."""

    path: int = -1  # position in Fields.paths
    children: dict[str, Node] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Fields:
    paths: tuple[Path, ...]

    @classmethod
    def of(cls, paths: Iterable[Path]) -> Fields:
        return cls(tuple(sorted(set(paths))))

    @cached_property
    def position(self) -> dict[Path, int]:
        return {path: i for i, path in enumerate(self.paths)}

    @cached_property
    def root(self) -> Node:
        root = Node()
        for position, path in enumerate(self.paths):
            node = root
            for name in path:
                node = node.children.setdefault(name, Node())
            node.path = position
        return root

    @cached_property
    def names(self) -> Names:
        nodes, edges = [self.root], []
        for number, node in enumerate(nodes):  # grows as it goes: breadth first
            for name, child in node.children.items():
                if _PLAIN.fullmatch(name):
                    edges.append((number, name.encode(), len(nodes)))
                nodes.append(child)
        size = 1 << (2 * len(edges)).bit_length()
        owner, child_of = np.full(size, -1, np.int32), np.zeros(size, np.int32)
        start, length = np.zeros(size, np.int32), np.zeros(size, np.int32)
        text = bytearray()
        for number, key, child_number in edges:
            slot = key_hash(number, np.frombuffer(key, np.uint8)) & (size - 1)
            while owner[slot] >= 0:
                slot = (slot + 1) & (size - 1)
            owner[slot], child_of[slot], start[slot], length[slot] = number, child_number, len(text), len(key)
            text += key
        path = np.array([node.path for node in nodes], np.int32)
        inner = np.array([bool(node.children) for node in nodes])
        assert path[ROOT] == -1  # no field has an empty path
        return Names(owner, child_of, start, length, np.frombuffer(bytes(text) or b"\0", np.uint8), path, inner)

    def memory(self) -> Memory:
        """Make the arrays that a reader of events needs besides the names; not for several readers at once."""
        return Memory(
            stack=np.empty(DEPTH, np.int32),
            is_array=np.empty(DEPTH, np.bool_),
            serial=np.empty(DEPTH, np.int64),
            seen=np.zeros(len(self.names.path), np.int64),
            follows=np.zeros(len(self.names.node) + 1, np.int64),
            last_serial=np.zeros(1, np.int64),
        )
