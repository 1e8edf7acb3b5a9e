"""Reject an Avro schema by which few bytes decode to very many values: ten bytes for an array of 2^60 nulls.

For each schema, compute the fewest bytes of a value and the number of values in it. Items of an array, values of a map
and branches of a union count separately, because the bytes determine their number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streaming.codecs.contract import Undecodable

MOST_VALUES_PER_BYTE = 16  # a record in a record in a record, down to one number, is four
MOST_FREE_VALUES = 10_000  # of a whole event beyond that

Cost = tuple[int, int]  # bytes, values
_PRIMITIVE = {"null": 0, "float": 4, "double": 8}  # bytes; one at least for all others


def check(schema: Any, named: Mapping[str, Any]) -> None:
    """Check the bounds of a schema, as fastavro parsed it, and of the named ones. Raises Undecodable."""
    bytes, values = _Costs(named).of(schema)
    if values > MOST_VALUES_PER_BYTE * bytes + MOST_FREE_VALUES:
        raise Undecodable(f"a record of {bytes} bytes would decode to {values} values")


class _Costs:
    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._known: dict[str, Cost] = {}

    def of(self, schema: Any) -> Cost:
        if isinstance(schema, list):
            for branch in schema:
                self._within("a branch of a union", branch, 1)
            return 1, 1
        if isinstance(schema, str):
            if schema in self._known:
                return self._known[schema]
            if schema in self._named:
                return self.of(self._named[schema])
            return _PRIMITIVE.get(schema, 1), 1
        type = schema["type"]
        if type in ("record", "error"):
            return self._record(schema)
        if type == "array":
            self._within("an item of an array", schema["items"], 0)
        elif type == "map":
            self._within("a value of a map", schema["values"], 1)
        elif type == "fixed":
            return schema["size"], 1
        elif type not in ("enum", "bytes", "string"):
            return self.of(type)
        return 1, 1

    def _record(self, schema: Any) -> Cost:
        name = schema["name"]
        if name not in self._known:
            self._known[name] = 1, 1  # while it is within itself
            costs = [self.of(field["type"]) for field in schema["fields"]]
            self._known[name] = sum(bytes for bytes, _ in costs), 1 + sum(values for _, values in costs)
        return self._known[name]

    def _within(self, what: str, schema: Any, cost: int) -> None:
        bytes, values = self.of(schema)
        if values > MOST_VALUES_PER_BYTE * (bytes + cost):
            raise Undecodable(
                f"{what} of {bytes + cost} bytes would decode to {values} values; "
                f"the maximum per byte is {MOST_VALUES_PER_BYTE}"
            )
