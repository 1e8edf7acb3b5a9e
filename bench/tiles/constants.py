"""Sweep the constants of `tiles`: the time with another value, as a ratio to the time with the present one.

    python -m bench.tiles.constants FAMILY FEW_LEFT      some of them; all without names

Compiled kernels contain the constants. So each value gets a copy of the sources in a temporary directory, with the
compiled code beside them, and a process (`timing.py`). Kernels that do not contain the constant are not compiled again:
the cache identifies a kernel by all that is compiled into it. Rounds are interleaved: all values in turn, then again.
The ratio is of the least CPU times. The present value has two processes. Their ratio, in the row without a value, is
what a process changes by itself, since the memory that it gets differs. Each process compares its matches with `scan`.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.errors import BenchError
from bench.markdown import table_lines

HOME = Path(__file__).resolve().parents[2]
COPIED = ("matchers", "bench")
ROUNDS = 5
TILES = "matchers/algorithms/tiles"


@dataclass(frozen=True)
class Constant:
    """A constant of the module `file`, other values for it, and the workloads that exercise it."""

    name: str
    file: str | None  # within matchers/algorithms/tiles; None: an option of `build`
    values: tuple[str, ...]  # as Python expressions
    points: tuple[str, ...]


SWEPT = (
    Constant("tile", None, ("128", "256"), ("batch", "small", "alone")),
    Constant("fewest", None, ("4", "64"), ("batch", "mixed", "thousand")),
    Constant("FAMILY", "__init__.py", ("4", "64"), ("batch", "small", "alone")),
    Constant("BROAD", "clustering.py", ("0.0001", "0.01"), ("batch", "precise", "mixed")),
    Constant("FEW_SURVIVE", "clustering.py", ("0.0", "600.0"), ("thousand",)),
    Constant("FEW_EDGES", "quantiles.py", ("128", "2048"), ("batch", "mixed")),
    Constant("CELLS_A_PREDICATE", "quantiles.py", ("16.0", "1024.0"), ("batch", "mixed")),
    Constant("PREDICATE_NS", "dense.py", ("1.0", "16.0"), ("dense", "precise", "batch")),
    Constant("FEW_OF_COLUMNS", "sparse.py", ("0.0", "1.0"), ("sparse", "thousand")),
    Constant("A_TILE", "__init__.py", ("2", "50"), ("sparse", "names")),
    Constant("MUCH", "__init__.py", ("20", "2000"), ("alone",)),
    Constant("NEAR", "kernels/layout_kernel.py", ("15 << 10", "60 << 10"), ("batch", "small", "alone")),
    Constant("LEAST_CELLS", "kernels/layout_kernel.py", ("8", "32"), ("mixed", "thousand")),
    Constant("CANDIDATES_AT_ONCE", "kernels/arrays.py", ("128", "8192"), ("batch", "small")),
    Constant("EVENTS_OF_A_ROW", "kernels/matching.py", ("0", "96"), ("batch", "small")),
    Constant("FEW_LEFT", "kernels/matching.py", ("0", "32"), ("precise", "mixed")),
    Constant("VERIFY_NS", "kernels/layout_kernel.py", ("2.0", "32.0"), ("batch", "small", "mixed")),
    Constant("MANY_LEFT", "kernels/layout_kernel.py", ("1 / 32", "1 / 512"), ("precise", "mixed")),
    Constant("GAIN", "kernels/clustering_kernel.py", ("0.7", "0.99"), ("batch", "small", "mixed")),
    Constant("MOST_TESTS", "kernels/layout_kernel.py", ("3", "12"), ("batch", "small", "alone")),
    Constant("WIDEST", "kernels/layout_kernel.py", ("0.9", "0.999"), ("batch", "small", "mixed")),
    Constant("TILES_AHEAD", "kernels/matching.py", ("1", "16"), ("alone",)),
    Constant("MOST_COLUMNS", "kernels/clustering_kernel.py", ("3", "16"), ("batch", "small", "mixed")),
    Constant("MOST_CELLS", "kernels/layout_kernel.py", ("32", "128"), ("mixed", "thousand")),
    Constant("BUCKETS", "kernels/quantiles_kernel.py", ("1", "16"), ("batch", "alone")),
    Constant("TRIED", "kernels/sparse_kernel.py", ("1 / 512", "1 / 8"), ("sparse", "names")),
)


@dataclass(frozen=True)
class SweepRow:
    constant: Constant
    value: str | None  # None: the greater of the two present times
    ratios: dict[str, float]  # by workload: the time with this value / the lesser of the two present times


def with_constant(source: str, name: str, value: str) -> str:
    """The source with a line that assigns another value behind the one that defines the constant. Raises BenchError."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and any(
            isinstance(part, ast.Name) and part.id == name for target in node.targets for part in ast.walk(target)
        ):
            lines = source.splitlines()
            return "\n".join([*lines[: node.end_lineno], f"{name} = {value}", *lines[node.end_lineno :], ""])
    raise BenchError(f"the source defines no constant {name}")


def sweep(constants: Sequence[Constant], share: float = 1.0, rounds: int = ROUNDS) -> Iterator[SweepRow]:
    """Measure all values of one constant after the other, with `share` of each workload's subscriptions. Raises
    BenchError."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(TemporaryDirectory()))
        for constant in constants:
            yield from _sweep_one(constant, home, share, rounds)


def _sweep_one(constant: Constant, home: Path, share: float, rounds: int) -> Iterator[SweepRow]:
    """Measure each value in a new process, because a process that has run for long is faster."""
    with ExitStack() as stack:
        first = stack.enter_context(_Timing(_copy(HOME, home / "present"), constant.points, share))
        expected = first.found()  # it has compiled all kernels
        running = [first, stack.enter_context(_Timing(home / "present", constant.points, share))]
        for number, value in enumerate(constant.values):
            other, option = home / "present", [f"{constant.name}={value}"]
            if constant.file is not None:
                other, option = _copy(home / "present", home / f"{constant.name} {number}"), []
                file = other / TILES / constant.file
                file.write_text(with_constant(file.read_text(), constant.name, value))
            running.append(stack.enter_context(_Timing(other, (*constant.points, *option), share)))
        for timing in running[1:]:
            if (found := timing.found()) != expected:
                raise BenchError(f"a value of {constant.name} finds {found} matches, not {expected}")
        least = [dict.fromkeys(constant.points, float("inf")) for _ in running]
        for point in constant.points:
            for _ in range(rounds):
                for timing, us in zip(running, least, strict=True):
                    us[point] = min(us[point], timing.round(point))
    us_of_first, us_of_second, *others = least
    base = {point: min(us_of_first[point], us_of_second[point]) for point in constant.points}
    again = {point: max(us_of_first[point], us_of_second[point]) for point in constant.points}
    for swept, us in zip((None, *constant.values), (again, *others), strict=True):
        yield SweepRow(constant, swept, {point: us[point] / base[point] for point in constant.points})


def _copy(sources: Path, to: Path) -> Path:
    """A directory with the sources, and with the compiled code of `sources` unless that is this checkout."""
    if not to.exists():
        for package in COPIED:
            ignored = shutil.ignore_patterns("__pycache__") if sources == HOME else None
            shutil.copytree(sources / package, to / package, ignore=ignored)
    return to


class _Timing:
    """A process that runs `timing.py` in a directory."""

    def __init__(self, home: Path, words: Sequence[str], share: float) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.tiles.timing", str(share), *words],
            cwd=home,  # where Python finds its modules first
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> _Timing:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def found(self) -> dict[str, int]:
        """Wait until all indexes are built; returns the matches by workload."""
        found = {}
        while line := self._line():
            point, matches = line.split()
            found[point] = int(matches)
        return found

    def _line(self) -> str:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            raise BenchError("a process that times a constant has ended; its error is above")
        return line.strip()

    def round(self, point: str) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{point}\n")
        self._process.stdin.flush()
        return float(self._line())


def cells(row: SweepRow) -> list[str]:
    """A row of the table."""
    ratios = ", ".join(f"{point} {ratio:.2f}" for point, ratio in row.ratios.items())
    return [f"`{row.constant.name}`", row.value or "as it is, again", ratios]


def main() -> None:
    names = sys.argv[1:]
    rows = map(cells, sweep([c for c in SWEPT if not names or c.name in names]))
    for line in table_lines(("constant", "value", "time / time with the present value"), rows, texts=(0, 1, 2)):
        sys.stdout.write(line)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
