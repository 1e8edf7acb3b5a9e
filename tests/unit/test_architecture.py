"""Imports point one way, and each package keeps to its own."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[2]
PACKAGES = ("matchers", "streaming", "config", "offline", "examples", "bench", "commands")
MODULES = [*sorted(p for package in PACKAGES for p in (HOME / package).rglob("*.py")), HOME / "run_stream.py"]

# (whose modules, what they may not import)
FORBIDDEN = [
    ("matchers", "streaming", "config", "offline", "examples", "bench", "commands", "run_stream"),
    ("matchers", "pyspark", "pyarrow", "confluent_kafka", "orjson"),
    ("matchers.kernels", "matchers.algorithms", "matchers.tables", "matchers.base", "matchers.model"),
    ("config", "matchers", "streaming", "offline", "examples", "bench", "commands", "run_stream"),
    ("streaming", "matchers.algorithms", "matchers.kernels", "offline", "examples", "bench", "commands", "run_stream"),
    ("offline", "matchers.algorithms", "matchers.kernels", "config", "examples", "bench", "commands", "run_stream"),
    ("offline", "pyspark", "pyarrow", "confluent_kafka"),
    ("examples", "matchers.algorithms", "matchers.kernels", "bench", "commands", "run_stream"),
    ("bench", "streaming", "config", "offline", "examples", "commands", "run_stream"),
    ("bench", "pyspark", "pyarrow", "confluent_kafka"),
    (
        "bench.living",
        *("matchers", "offline", "examples", "commands", "run_stream", "pyspark", "pyarrow", "bench.beside"),
    ),
    ("bench.beside", *(name for name in PACKAGES if name != "bench"), "run_stream", "confluent_kafka", "bench.living"),
]
# The first drives the whole system, and must not know how that matches. The second is what would be in its place.
FREE = {"bench": ("bench.living", "bench.beside")}


def name_of(module: Path) -> str:
    return ".".join(module.relative_to(HOME).with_suffix("").parts).removesuffix(".__init__")


def imports(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_imports_point_one_way(module: Path) -> None:
    for package, *forbidden in FORBIDDEN:
        if within(name_of(module), package) and not any(
            within(name_of(module), free) for free in FREE.get(package, ())
        ):
            found = [i for i in imports(module) for f in forbidden if within(i, f)]
            assert not found, f"{name_of(module)} must not import {found}"


@pytest.mark.parametrize("module", [m for m in MODULES if within(name_of(m), "offline")], ids=name_of)
def test_offline_takes_from_the_stream_what_reads_documents_only(module: Path) -> None:
    taken = [i for i in imports(module) if within(i, "streaming")]
    assert not [i for i in taken if not within(i, "streaming.subscriptions") and not within(i, "streaming.codecs")]


@pytest.mark.parametrize("module", [m for m in MODULES if within(name_of(m), "matchers")], ids=name_of)
def test_the_matching_library_needs_numpy_and_numba_only(module: Path) -> None:
    allowed = {"matchers", "numpy", "numba", "llvmlite", "__future__"} | sys.stdlib_module_names
    assert not [i for i in imports(module) if i.split(".")[0] not in allowed]


@pytest.mark.parametrize(
    "module",
    [m for m in MODULES if name_of(m).split(".")[0] in ("matchers", "streaming", "offline", "bench")],
    ids=name_of,
)
def test_only_the_compiler_settings_read_the_environment(module: Path) -> None:
    reads = [
        ast.unparse(node)
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv") and isinstance(node.value, ast.Name)
    ]
    # streaming.session tells Spark's workers which interpreter to use; Spark takes that from nowhere else.
    allowed = {"matchers.kernels.jit": 1, "streaming.session": 1}
    assert len(reads) <= allowed.get(name_of(module), 0), reads


def test_only_what_our_own_processes_give_each_other_is_unpickled() -> None:
    serializers = ("pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib")
    importers = {name_of(m) for m in MODULES for i in imports(m) for s in serializers if within(i, s)}
    assert importers == {"streaming.packing"}


def test_what_draws_is_imported_when_it_draws() -> None:
    importers = {
        name_of(module)
        for module in MODULES
        for node in ast.parse(module.read_text()).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        and ("matplotlib" in ast.unparse(node) or "bench.draw" in ast.unparse(node))
    }
    assert importers == {"bench.draw"}


def test_every_algorithm_is_a_line_and_two_files() -> None:
    from matchers import ALGORITHMS

    algorithms = {p.stem for p in (HOME / "matchers" / "algorithms").glob("*.py")} - {"__init__"}
    assert algorithms == ALGORITHMS.keys()
    kernels = {p.stem for p in (HOME / "matchers" / "kernels").glob("*.py")}
    assert ALGORITHMS.keys() - kernels == {"naive", "auto"}  # they have no loop worth compiling


def test_no_registry_is_named() -> None:
    hosts = (
        "pypi" + ".org",
        "pythonhosted" + ".org",
        "maven" + ".org",
        "docker" + ".io/",
        "quay" + ".io",
        "ghcr" + ".io",
    )
    files = [p for p in HOME.iterdir() if p.suffix in (".lock", ".in", ".toml", ".md") or p.name == "Makefile"]
    places = ("config", "docker", "docs", "deploy/kubernetes", "deploy/yarn")
    files += [file for place in places for file in (HOME / place).iterdir()]
    for file in files:
        if file.is_file():
            content = file.read_bytes()  # one may be a picture
            assert not [host for host in hosts if host.encode() in content], file


def test_the_container_image_holds_all_packages() -> None:
    kept = (HOME / ".dockerignore").read_text().split()
    assert {f"!{package}" for package in PACKAGES} <= set(kept)
