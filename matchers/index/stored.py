"""Take objects apart into named arrays and a tree that JSON can hold, and put them together again.

    None, True, 1, 0.5, "a"     themselves
    [tag, ...]                  anything else: a tuple, a mapping, an array by its name, an object met before
    [i, value, ...]             an instance of the class and with the fields that layouts[i] names

Only the classes, functions and types of arrays that are named here are ever made or called, so a file can hold data but
no instructions. Their contents are not verified: compiled loops trust the arrays that they are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, cached_property
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchers import registry
from matchers.contract.tables import EventBatch, SubscriptionTable
from matchers.errors import MatchingError
from matchers.index.kernels.encode import Cuts
from matchers.index.segment import Segment
from matchers.index.snapshot import Part
from matchers.index.texts import Texts
from matchers.index.vocabulary import Vocabulary
from matchers.language import operators
from matchers.language.comparison import Order
from matchers.language.geography import Within
from matchers.language.model import ABSENT, Compared, Contains

Arrayed = dict[str, NDArray[Any]]

BESIDE_MATCHERS: tuple[type, ...] = (
    *(Part, Segment, SubscriptionTable, EventBatch, Texts, Vocabulary, Cuts),
    *(operators.Equals, operators.Numeric, operators.Prefix, operators.Suffix, operators.EqualsIgnoreCase),
    *(operators.Wildcard, operators.AnythingBut, operators.Exists, operators.Cidr, operators.AllOf),
    *(operators.Not, operators.TextLength, operators.NumericText, operators.Regex, operators.TextOrder),
    *(operators.Time, operators.TimeNumber, Contains, Compared, Order, Within),
)
PLAIN = "biuf"  # kinds of arrays: truth values, integers and floats; records consist of these


_TILES = "matchers.algorithms.tiles.kernels"
# Classes that files name otherwise than the code does.
NAMES_IN_FILES = {
    f"{_TILES}.sparse_kernel.ColumnIndex": f"{_TILES}.sparse.ColumnIndex",
    "matchers.papers.ada_rein.AdaptationState": "matchers.papers.ada_rein.Adaptation",
    "matchers.papers.ada_rein.SkipPlan": "matchers.papers.ada_rein.Plan",
    "matchers.papers.ada_rein.SkipSequence": "matchers.papers.ada_rein.Order",
    "matchers.papers.comat.kernel.IntervalEnds": "matchers.papers.comat.kernel.Ends",
    "matchers.papers.h_tree.kernel.HTreeNodes": "matchers.papers.h_tree.kernel.Tree",
    "matchers.papers.pem.SideIndexes": "matchers.papers.pem.Side",
    "matchers.papers.rein.kernel.BucketLists": "matchers.papers.rein.kernel.Lists",
    "matchers.papers.sff.kernel.SharedConstraints": "matchers.papers.sff.kernel.Constraints",
}


def name_of(kind: type) -> str:
    """The full name of a class in files."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    return NAMES_IN_FILES.get(name, name)


class Known(NamedTuple):
    """The classes that a file may hold."""

    classes: frozenset[type]
    by_name: dict[str, type]
    functions: dict[str, Callable[..., Any]]


@cache
def known(papers: bool) -> Known:
    """`papers`: with the classes and functions of published algorithms, which are imported for it."""
    classes, functions = registry.stored(papers)
    classes |= {*BESIDE_MATCHERS}
    return Known(frozenset(classes), {name_of(kind): kind for kind in classes}, functions)


def is_published(name: str) -> bool:
    """Whether a class with this full name belongs to a published algorithm."""
    return name.startswith("matchers.papers.")


def taken_apart(thing: Any) -> tuple[list[Any], Any, Arrayed]:
    """The layouts of the instances (a class and the names of its fields), the tree, and the arrays.

    An instance of a class that is not known may only be the whole. Raises TypeError for anything that cannot be
    stored.
    """
    apart = _Apart(type(thing))
    tree = apart.tree(thing, "")
    return [[name_of(kind), *names] for kind, names in apart.layouts], tree, apart.arrays


def put_together(layouts: list[Any], tree: Any, arrays: Mapping[str, NDArray[Any]], whole: type) -> Any:
    """The inverse of `taken_apart`; `whole` is the expected class. Raises MatchingError."""
    try:
        storable = known(papers=any(is_published(name) for name, *_ in layouts))
        kinds = storable.by_name | {name_of(whole): whole}
        together = _Together([(kinds[name], *names) for name, *names in layouts], arrays, storable.functions)
        thing = together.thing(tree)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise MatchingError(f"the saved index is corrupt: {type(error).__name__} {error}") from None
    if not isinstance(thing, whole):
        raise MatchingError(f"has a saved {type(thing).__name__}, not a {whole.__name__}")
    return thing


class _Apart:
    """Take objects apart. An array or instance that occurs again is written once; numbers count them in the order of
    their ends."""

    def __init__(self, whole: type) -> None:
        self.known = known(papers=False)
        self.whole = whole if is_dataclass(whole) else None
        self.arrays: Arrayed = {}
        self.layouts: dict[tuple[type, tuple[str, ...]], int] = {}
        self._numbers: dict[int, int] = {}  # by id
        self._kept: list[Any] = []  # no id of these is given to another meanwhile

    def tree(self, thing: Any, at: str) -> Any:
        kind = type(thing)
        if thing is None or kind in (bool, int, float, str):
            return thing
        if id(thing) in self._numbers:
            return ["again", self._numbers[id(thing)]]
        if self._is_allowed(kind):
            return self._met(thing, self._instance(thing, at))
        if isinstance(thing, np.ndarray):
            return self._met(thing, self._array(thing, at))
        if kind in (tuple, list):
            if thing and all(type(item) is bytes for item in thing):
                return [f"{kind.__name__} of bytes", *self._bytes(thing, at)]
            return [kind.__name__, *(self.tree(item, f"{at}.{i}") for i, item in enumerate(thing))]
        if isinstance(thing, Mapping):
            pairs = enumerate(thing.items())
            return ["dict", *([self.tree(key, f"{at}.{i}.key"), self.tree(v, f"{at}.{i}")] for i, (key, v) in pairs)]
        return self._value(thing)

    def _is_allowed(self, kind: type) -> bool:
        if kind in self.known.classes or kind is self.whole:
            return True
        if not is_published(kind.__module__):
            return False
        self.known = known(papers=True)
        return kind in self.known.classes

    def _met(self, thing: Any, tree: Any) -> Any:
        self._numbers[id(thing)] = len(self._numbers)
        self._kept.append(thing)
        return tree

    def _instance(self, thing: Any, at: str) -> Any:
        state = _state(thing)
        number = self.layouts.setdefault((type(thing), tuple(state)), len(self.layouts))
        return [number, *(self.tree(value, f"{at}.{name}") for name, value in state.items())]

    def _array(self, array: NDArray[Any], at: str) -> Any:
        kinds = array.dtype
        whole = np.ascontiguousarray(array).reshape(-1)
        record: Any = None
        if kinds.names:
            record = [[name, kinds[name].str] for name in kinds.names]
            if _record(record) != kinds:
                raise TypeError(f"an array of {kinds} cannot be stored")
            whole = whole.view(np.uint8)
        elif kinds.kind not in PLAIN:
            raise TypeError(f"an array of {kinds} cannot be stored")
        self.arrays[at] = whole
        return ["array", at, list(array.shape), record]

    def _bytes(self, items: tuple[bytes, ...] | list[bytes], at: str) -> Any:
        self.arrays[f"{at}.bytes"] = np.frombuffer(b"".join(items), np.uint8)
        self.arrays[f"{at}.ends"] = np.cumsum([0, *map(len, items)], dtype=np.int64)
        return f"{at}.bytes", f"{at}.ends"

    def _value(self, thing: Any) -> Any:
        if isinstance(thing, np.generic) and thing.dtype.kind in PLAIN:
            return ["scalar", thing.dtype.str, thing.item()]
        if isinstance(thing, bytes):
            return ["bytes", thing.decode("latin-1")]
        if isinstance(thing, range):
            return ["range", thing.start, thing.stop, thing.step]
        if isinstance(thing, IPv4Network | IPv6Network):
            return ["network", str(thing)]
        if thing is ABSENT:
            return ["absent"]
        for name, function in self.known.functions.items():
            if function is thing:
                return ["function", name]
        raise TypeError(f"a {name_of(type(thing))} cannot be stored")


class _Together:
    def __init__(
        self,
        layouts: Sequence[tuple[Any, ...]],
        arrays: Mapping[str, NDArray[Any]],
        functions: Mapping[str, Callable[..., Any]],
    ) -> None:
        for kind, *names in layouts:
            _check(kind, {*names})
        self.layouts, self.arrays = layouts, arrays
        self._met: list[Any] = []
        self._by_tag: dict[str, Callable[..., Any]] = {
            "again": lambda number: self._met[number],
            "tuple": lambda *items: tuple(map(self.thing, items)),
            "list": lambda *items: [*map(self.thing, items)],
            "dict": lambda *pairs: {self.thing(key): self.thing(value) for key, value in pairs},
            "array": self._array,
            "tuple of bytes": lambda *names: tuple(self._bytes(*names)),
            "list of bytes": self._bytes,
            "scalar": lambda kind, value: _plain(kind).type(value),
            "bytes": lambda text: text.encode("latin-1"),
            "range": range,
            "network": ip_network,
            "absent": lambda: ABSENT,
            "function": functions.__getitem__,
        }

    def thing(self, tree: Any) -> Any:
        if not isinstance(tree, list):
            return tree
        tag, *rest = tree
        if isinstance(tag, str):
            return self._by_tag[tag](*rest)
        kind, *names = self.layouts[tag]
        made = _instance(kind, dict(zip(names, map(self.thing, rest), strict=True)))
        self._met.append(made)
        return made

    def _array(self, name: str, shape: list[int], record: list[list[str]] | None) -> NDArray[Any]:
        array = self.arrays[name]
        array = (array if record is None else array.view(_record(record))).reshape(shape)
        self._met.append(array)
        return array

    def _bytes(self, text: str, ends: str) -> list[bytes]:
        whole = self.arrays[text].tobytes()
        return [whole[a:b] for a, b in pairwise(self.arrays[ends].tolist())]


def _check(kind: Any, names: set[str]) -> None:
    """Raises ValueError if a class lacks one of these fields, or has others that it does not compute itself."""
    if issubclass(kind, tuple):
        known = needed = {*kind._fields}
    else:
        needed = {f.name for f in fields(kind)}
        kept = {n for base in kind.__mro__ for n, value in vars(base).items() if isinstance(value, cached_property)}
        known = needed | kept  # what it works out once and keeps
        if "__setstate__" in vars(kind):
            needed = set()
    if not needed <= names <= known:
        raise ValueError(f"{kind.__name__} has other fields")


def _state(thing: Any) -> dict[str, Any]:
    """The fields of an instance, without those that its own `__getstate__` leaves out."""
    kind = type(thing)
    if isinstance(thing, tuple):
        return thing._asdict()  # type: ignore[attr-defined, no-any-return]
    if "__slots__" in vars(kind):
        return {name: getattr(thing, name) for name in kind.__slots__}
    state: dict[str, Any] = thing.__getstate__() or {}
    return state


def _instance(kind: Any, state: dict[str, Any]) -> Any:
    if issubclass(kind, tuple) or "__slots__" in vars(kind):
        return kind(**state)
    if not kind.__dataclass_params__.frozen:
        state = {name: v.copy() if isinstance(v, np.ndarray) else v for name, v in state.items()}
    thing = object.__new__(kind)
    if "__setstate__" in vars(kind):
        thing.__setstate__(state)
    else:
        thing.__dict__.update(state)
    return thing


def _plain(kind: str) -> np.dtype[Any]:
    dtype = np.dtype(kind)
    if dtype.kind not in PLAIN:
        raise ValueError(f"{kind} is no type of plain values")
    return dtype


def _record(columns: list[list[str]]) -> np.dtype[Any]:
    return np.dtype([(name, _plain(kind)) for name, kind in columns])
