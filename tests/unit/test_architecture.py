"""Imports point one way, and each package keeps to its rules."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[2]
PACKAGES = ("matchers", "streaming", "config", "offline", "examples", "rig", "bench", "commands")
MODULES = [*sorted(p for package in PACKAGES for p in (HOME / package).rglob("*.py")), HOME / "run_stream.py"]

STREAMING = sorted(f"streaming.{page.parent.name}" for page in (HOME / "streaming").glob("*/__init__.py"))

# (whose modules, what they may not import)
FORBIDDEN = [
    ("matchers", "streaming", "config", "offline", "examples", "rig", "bench", "commands", "run_stream"),
    ("matchers", "pyspark", "pyarrow", "confluent_kafka", "orjson"),
    ("config", "matchers", "streaming", "offline", "examples", "rig", "bench", "commands", "run_stream"),
    ("streaming", "matchers.algorithms", "matchers.papers"),
    ("streaming", "offline", "examples", "rig", "bench", "commands", "run_stream"),
    *((room, "matchers.kernels") for room in STREAMING if room not in ("streaming.publishing", "streaming.reading")),
    ("offline", "matchers.algorithms", "matchers.papers", "matchers.kernels", "config"),
    ("offline", "examples", "rig", "bench", "commands", "run_stream"),
    *((package, "matchers.index.kernels") for package in ("streaming", "offline", "commands")),
    ("offline", "pyspark", "pyarrow", "confluent_kafka"),
    ("rig", "matchers", "offline", "examples", "bench", "commands", "run_stream", "pyspark", "pyarrow"),
    *((room, "rig") for room in ("bench.workloads", "bench.matching", "bench.papers", "bench.tiles")),
    ("bench", "streaming", "config", "offline", "examples", "commands", "run_stream"),
    ("bench", "pyspark", "pyarrow", "confluent_kafka"),
    (
        "bench.system",
        *("matchers", "offline", "examples", "commands", "run_stream", "pyspark", "pyarrow", "bench.baselines"),
    ),
    (
        "bench.gate",
        *("config", "offline", "examples", "commands", "run_stream", "pyspark", "pyarrow", "confluent_kafka"),
    ),
    (
        "bench.baselines",
        *(name for name in PACKAGES if name != "bench"),
        "run_stream",
        "confluent_kafka",
        "bench.system",
    ),
]
# The first drives the whole system, and must not know how that matches. The second is what would be in its place. The
# third runs both kinds of benchmarks.
FREE = {"bench": ("bench.system", "bench.baselines", "bench.gate")}

# Which room may see which: itself, the modules beside its package's first page, and these. A room stands below all that
# it may see, so no two see each other.
ROOMS: dict[str, tuple[str, ...]] = {
    "matchers.kernels": (),
    "matchers.language": (),
    "matchers.contract": ("matchers.kernels",),
    "matchers.algorithms": ("matchers.kernels", "matchers.contract"),
    "matchers.papers": ("matchers.kernels", "matchers.contract", "matchers.algorithms"),
    "matchers.index": ("matchers.kernels", "matchers.language", "matchers.contract", "matchers.algorithms"),
    "matchers": (  # errors, registry, library
        *("matchers.language", "matchers.contract", "matchers.algorithms", "matchers.papers", "matchers.index"),
    ),
    "streaming": (),  # rows, errors, log, latencies, text_format, version
    "streaming.process": (),
    "streaming.codecs": (),
    "streaming.documents": (),
    "streaming.publishing": ("streaming.documents",),
    "streaming.reading": ("streaming.documents", "streaming.publishing"),
    "streaming.kafka": ("streaming.process", "streaming.documents", "streaming.publishing"),
    "streaming.index": ("streaming.documents",),
    "streaming.worker": (
        "streaming.process",
        "streaming.codecs",
        "streaming.documents",
        "streaming.publishing",
        "streaming.reading",
        "streaming.index",
    ),
    "streaming.state": (
        "streaming.process",
        "streaming.codecs",
        "streaming.documents",
        "streaming.kafka",
        "streaming.index",
        "streaming.worker",
    ),
    "streaming.precompile": (
        "streaming.publishing",
        "streaming.reading",
        "streaming.index",
        "streaming.worker",
        "streaming.state",
    ),
    "streaming.admin": (
        "streaming.codecs",
        "streaming.documents",
        "streaming.publishing",
        "streaming.reading",
        "streaming.kafka",
        "streaming.worker",
    ),
    "streaming.console": (
        "streaming.codecs",
        "streaming.documents",
        "streaming.kafka",
        "streaming.index",
        "streaming.admin",
    ),
    "streaming.monitoring": (
        "streaming.process",
        "streaming.documents",
        "streaming.index",
        "streaming.state",
        "streaming.console",
    ),
    "streaming.subscribers": (
        "streaming.documents",
        "streaming.publishing",
        "streaming.kafka",
        "streaming.index",
        "streaming.monitoring",
    ),
    "streaming.driver": (
        "streaming.process",
        "streaming.codecs",
        "streaming.documents",
        "streaming.publishing",
        "streaming.reading",
        "streaming.kafka",
        "streaming.index",
        "streaming.worker",
        "streaming.state",
        "streaming.precompile",
        "streaming.console",
        "streaming.monitoring",
        "streaming.subscribers",
    ),
    "streaming.client": (
        "streaming.codecs",
        "streaming.documents",
        "streaming.publishing",
        "streaming.kafka",
        "streaming.admin",
    ),
    "streaming.checks": (
        "streaming.process",
        "streaming.documents",
        "streaming.publishing",
        "streaming.kafka",
        "streaming.worker",
        "streaming.precompile",
        "streaming.driver",
    ),
    "bench.workloads": (),
    "bench.matching": ("bench.workloads",),
    "bench.papers": ("bench.workloads", "bench.matching"),
    "bench.tiles": ("bench.workloads", "bench.matching", "bench.papers"),
    "bench.system": (),
    "bench.baselines": (),
    "bench.gate": ("bench.workloads", "bench.matching", "bench.system"),
    "bench.commands": ("bench.workloads", "bench.matching", "bench.papers", "bench.system", "bench.gate"),
    "commands.shared": (),
    "commands.demo": ("commands.shared",),
    "commands.subscribers": ("commands.shared",),
}
# A package's first page offers what programs call, from these rooms, and imports it when it is called.
OFFERED = {"streaming": {"streaming.process", "streaming.driver"}}
# An algorithm sees another one only here.
ENSEMBLES = {
    "ada_rein": {"rein"},
    "auto": {"be_tree", "counting", "hem", "ocm", "scan", "tama", "tiles"},
    "comat": {"rein", "tama"},
    "pem": {"hem", "opindex", "rein", "tama"},
    "translator": {"ccm", "ocm", "sff"},
    "updates": {"be_tree", "comat", "h_tree", "hem", "opindex", "pem", "rein", "tama"},
}
ALGORITHM_ROOMS = (HOME / "matchers" / "algorithms", HOME / "matchers" / "papers")
UPDATES = {HOME / "matchers" / "papers" / "updates"}  # a package beside the algorithms
GROUPED = ("matchers", "streaming", "rig", "bench", "commands", "offline", "config")  # packages whose folders are rooms
MOST_FILES = 16  # of a folder: more are several rooms


def name_of(module: Path) -> str:
    return ".".join(module.relative_to(HOME).with_suffix("").parts).removesuffix(".__init__")


@cache
def imports(module: Path) -> tuple[str, ...]:
    found: list[str] = []
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            assert node.module is not None
            found += (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    return tuple(found)


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


def room_of(name: str) -> str:
    """The room that a module, or a name in it, belongs to, if there is one."""
    package, *rest = name.split(".")
    return room if (room := ".".join((package, *rest[:1]))) in ROOMS else package


@pytest.mark.parametrize("module", [m for m in MODULES if room_of(name_of(m)) in ROOMS], ids=name_of)
def test_a_room_sees_what_the_table_says_and_no_more(module: Path) -> None:
    room = room_of(name_of(module))
    package = room.split(".")[0]
    seen = {other for other in map(room_of, imports(module)) if other in ROOMS and within(other, package)}
    seen -= {room, package} | OFFERED.get(name_of(module), set())
    assert seen <= set(ROOMS[room]), f"{name_of(module)} must not import from {sorted(seen - set(ROOMS[room]))}"


def test_a_room_stands_below_what_it_may_see() -> None:
    rooms = list(ROOMS)
    for room, seen in ROOMS.items():
        assert set(seen) <= set(rooms[: rooms.index(room)]), room


@pytest.mark.parametrize("package", ["matchers", "streaming"])
def test_each_room_of_a_package_is_in_the_table(package: str) -> None:
    folders = {f"{package}.{path.parent.name}" for path in (HOME / package).glob("*/__init__.py")}
    assert folders == {room for room in ROOMS if room.startswith(f"{package}.")}


def folders_of(package: str) -> set[Path]:
    return {module.parent for module in MODULES if within(name_of(module), package)}


@pytest.mark.parametrize("folder", sorted(f for p in GROUPED for f in folders_of(p)), ids=name_of)
def test_a_room_is_not_crowded_and_its_first_page_says_what_it_is_for(folder: Path) -> None:
    assert len([path for path in folder.iterdir() if path.is_file()]) <= MOST_FILES
    page = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    if folder.parent in ALGORITHM_ROOMS:  # that of an algorithm says how it decides
        assert page
        return
    for promise in ("For: ", "May enter: ", "Must not know: "):
        assert promise in page.replace("\n", " "), f"{name_of(folder)}/__init__.py says nothing of it: {promise}"


TEST_FOLDERS = sorted({file.parent for file in (HOME / "tests").rglob("*.py")})


@pytest.mark.parametrize("folder", TEST_FOLDERS, ids=name_of)
def test_a_folder_of_tests_is_not_crowded(folder: Path) -> None:
    assert len([path for path in folder.iterdir() if path.is_file()]) <= MOST_FILES


@pytest.mark.parametrize("kind", ["unit", "integration"])
def test_tests_lie_where_what_they_test_lies(kind: str) -> None:
    mirrored = [f.relative_to(HOME / "tests" / kind) for f in TEST_FOLDERS if f.is_relative_to(HOME / "tests" / kind)]
    assert [folder for folder in mirrored if not (HOME / folder).is_dir()] == []


def imported_modules(module: Path, known: Collection[str]) -> Iterator[str]:
    """Yield the known modules. `from room import module` is about the module, not about the room's first page."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name for name in (n if n in known else node.module or "" for n in names) if name in known)


def test_no_imports_go_in_a_circle() -> None:
    known = {name_of(m): m for m in MODULES if name_of(m).split(".")[0] in GROUPED}
    TopologicalSorter({name: set(imported_modules(m, known)) for name, m in known.items()}).prepare()


LIBRARY = {name_of(m): m for m in MODULES if within(name_of(m), "matchers")}


def algorithm_of(module: str) -> str | None:
    """The algorithm whose package a module is in; the modules beside the packages serve several."""
    path = HOME.joinpath(*module.split(".")[:3])
    return path.name if path.parent in ALGORITHM_ROOMS and path.is_dir() else None


def test_an_algorithm_sees_another_only_where_the_table_says() -> None:
    seen: dict[str | None, set[str | None]] = {}
    for name, module in LIBRARY.items():
        if algorithm_of(name):
            others = set(map(algorithm_of, imported_modules(module, LIBRARY))) - {None, algorithm_of(name)}
            seen[algorithm_of(name)] = seen.get(algorithm_of(name), set()) | others
    assert {name: others for name, others in seen.items() if others} == ENSEMBLES


def is_kernel(module: str) -> bool:
    return not {"kernel", "kernels"}.isdisjoint(module.split("."))


@pytest.mark.parametrize("module", [m for name, m in LIBRARY.items() if is_kernel(name)], ids=name_of)
def test_kernels_see_nothing_of_the_library_but_kernels(module: Path) -> None:
    assert not [name for name in imported_modules(module, LIBRARY) if not is_kernel(name)]


@pytest.mark.parametrize("kernels", [p for room in ALGORITHM_ROOMS for p in room.rglob("kernels")], ids=name_of)
def test_a_file_of_kernels_has_not_the_name_of_one_beside_them(kernels: Path) -> None:
    names = {file.name for file in kernels.glob("*.py")} & {file.name for file in kernels.parent.glob("*.py")}
    assert names == {"__init__.py"}


def test_only_the_registry_is_asked_for_an_algorithm() -> None:
    for name, module in LIBRARY.items():
        if not within(name, "matchers.algorithms") and not within(name, "matchers.papers"):
            taken = [i for i in imported_modules(module, LIBRARY) if algorithm_of(i)]
            assert not taken, f"{name} must not import {taken}"


@pytest.mark.parametrize(
    "init", [m for m in MODULES if m.name == "__init__.py" and within(name_of(m), "matchers")], ids=name_of
)
def test_a_package_calls_nothing_else_by_the_name_of_its_modules(init: Path) -> None:
    """A module becomes an attribute of its package when it is imported, in place of whatever has its name there."""
    for node in ast.parse(init.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = f"{name_of(init)}.{alias.asname or alias.name}"
                assert name not in LIBRARY or name == f"{node.module}.{alias.name}"
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            assert f"{name_of(init)}.{node.name}" not in LIBRARY


@pytest.mark.parametrize("module", [m for m in MODULES if within(name_of(m), "offline")], ids=name_of)
def test_offline_takes_from_the_stream_what_reads_documents_only(module: Path) -> None:
    allowed = (
        "streaming.documents.subscriptions",
        "streaming.codecs",
        "streaming.documents.instants",
        "streaming.documents.verdicts",
        "streaming.text_format",
    )
    taken = [i for i in imports(module) if within(i, "streaming")]
    assert not [i for i in taken if not any(within(i, name) for name in allowed)]


@pytest.mark.parametrize("module", [m for m in MODULES if within(name_of(m), "matchers")], ids=name_of)
def test_the_matching_library_needs_numpy_and_numba_only(module: Path) -> None:
    allowed = {"matchers", "numpy", "numba", "llvmlite", "__future__"} | sys.stdlib_module_names
    assert not [i for i in imports(module) if i.split(".")[0] not in allowed]


@pytest.mark.parametrize(
    "module",
    [m for m in MODULES if name_of(m).split(".")[0] in ("matchers", "streaming", "offline", "bench")],
    ids=name_of,
)
def test_only_the_settings_read_the_environment(module: Path) -> None:
    reads = [
        ast.unparse(node)
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv") and isinstance(node.value, ast.Name)
    ]
    # The first tells Spark which interpreter and launcher to use; Spark takes that from nowhere else. The second looks
    # for Java where Spark does. The others give the environment of one process to another that is forked.
    allowed = {
        "streaming.driver.session": 1,
        "streaming.process.java": 1,
        "streaming.process.fork_server": 7,
        "streaming.worker.starting.preloaded": 4,
    }
    assert len(reads) <= allowed.get(name_of(module), 0), reads


def test_nothing_is_unpickled() -> None:
    serializers = ("pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib")
    importers = {name_of(m) for m in MODULES for i in imports(m) for s in serializers if within(i, s)}
    assert importers == set()


def test_what_draws_is_imported_when_it_draws() -> None:
    importers = {
        name_of(module)
        for module in MODULES
        for node in ast.parse(module.read_text()).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        and ("matplotlib" in ast.unparse(node) or "bench.papers.draw" in ast.unparse(node))
    }
    assert importers == {"bench.papers.draw"}


def test_every_algorithm_is_a_line_and_a_package_with_its_kernels() -> None:
    from matchers import ALGORITHMS

    packages = {p.parent for room in ALGORITHM_ROOMS for p in room.glob("*/__init__.py")} - UPDATES
    assert {p.name for p in packages} == ALGORITHMS.keys()
    without = {p.name for p in packages if not (p / "kernel.py").exists() and not (p / "kernels").is_dir()}
    assert without == {"naive", "translator"}  # they have no loop worth compiling


def is_compiled(node: ast.AST, kinds: Collection[str] = ("kernel", "borrower", "inner", "inlined")) -> bool:
    return isinstance(node, ast.FunctionDef) and any(ast.unparse(d) in kinds for d in node.decorator_list)


def dotted(node: ast.expr) -> str:
    """Return `a.b.c` for a name and its attributes, and an empty first part where something else has them."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def calls_from_python(code: str, module: str, inner: Collection[str]) -> set[str]:
    """The functions of `inner`, by their full names, that a module names outside of compiled functions."""
    tree = ast.parse(code)
    known = {name.rpartition(".")[2]: name for name in inner if name.rpartition(".")[0] == module}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    in_kernels = {id(child) for node in ast.walk(tree) if is_compiled(node) for child in ast.walk(node)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and id(node) not in in_kernels:
            first, _, rest = dotted(node).partition(".")
            if first in known:
                found.add(f"{known[first]}.{rest}" if rest else known[first])
    return found & set(inner)


def test_only_kernels_call_inner_kernels() -> None:
    inner = {
        f"{name_of(module)}.{node.name}"
        for module in MODULES
        for node in ast.parse(module.read_text()).body
        if isinstance(node, ast.FunctionDef) and is_compiled(node, ["inner"])
    }
    assert "matchers.index.kernels.json.skip_plain" in inner
    modules = [*MODULES, *(HOME / "tests").rglob("*.py")]
    assert set().union(*(calls_from_python(m.read_text(), name_of(m), inner) for m in modules)) == set()


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("@inner\ndef f(): ...\n@kernel\ndef g(): f()", set()),
        ("@inner\ndef f(): ...\ndef g(): f()", {"a.f"}),
        ("from a import f as g\ng()", {"a.f"}),
        ("from b import a\na.f()", set()),
        ("from x import y as z\nz.f()", {"x.y.f"}),
        ("from x import y\n@kernel\ndef g(): y.f()", set()),
    ],
)
def test_a_call_of_an_inner_kernel_is_found(code: str, found: set[str]) -> None:
    assert calls_from_python(code, "a", {"a.f", "x.y.f"}) == found


MOST_PARAMETERS = 10  # of a kernel: arrays that belong together are a named tuple


def test_a_kernel_takes_few_parameters() -> None:
    longer = {
        name.removeprefix("matchers."): {
            node.name
            for node in ast.walk(ast.parse(module.read_text()))
            if isinstance(node, ast.FunctionDef) and is_compiled(node) and len(node.args.args) > MOST_PARAMETERS
        }
        for name, module in LIBRARY.items()
    }
    assert {name: kernels for name, kernels in longer.items() if kernels} == {}


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


# Class names that stand for several things, by the reason.
SHARED_NAMES = {
    "layouts of one algorithm or one kernel, which others do not see; some stand in saved files": (
        "Columns Constraints Documents Index Intervals Names Rows Single"
    ),
    "a section of the settings is named as what it is about": "Deliveries Events",
    "results and inputs of separate measurements": "Answer Figure Outcome Point Row",
    "a client is what its users call so, of Kafka's protocol or of the product": "Client",
}


def test_a_class_name_means_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for module in MODULES:
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(name_of(module))
    allowed = {name for names in SHARED_NAMES.values() for name in names.split()}
    several = {name: modules for name, modules in places.items() if len(modules) > 1}
    assert {name: modules for name, modules in several.items() if name not in allowed} == {}
    assert allowed - several.keys() == set()  # a name that is gone leaves the list
