"""The wheel in an environment of its own: the library, its types, and the script `sluice`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from streaming.version import VERSION
from tests.integration.conftest import HOME

PROJECT = tomllib.loads((HOME / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
EXAMPLES = HOME / "examples"

PROGRAM = """from matchers import Index

index = Index.build({"s1": {"symbol": ["IBM"], "price": [{"numeric": [">", 100]}]}})
found: list[list[str]] = index.match([{"symbol": "IBM", "price": 150}, {"symbol": "IBM", "price": 90}])
print(found)
print(*index.explain({"symbol": "IBM", "price": 90}, "s1"), sep="\\n")
"""

EVERY_HELP = """import sys, contextlib, io, run_stream
from typer.main import get_command

for name in sorted(get_command(run_stream.app).commands):
    sys.argv = ["sluice", name, "--help"]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        sluice_app.main()
print("all")
"""


def requirements(*extras: str) -> list[str]:
    """The requirements of the wheel with these extras. An extra that another one includes must be named too."""
    wanted = [*PROJECT["dependencies"], *(requirement for extra in extras for requirement in EXTRAS[extra])]
    return [requirement for requirement in wanted if not requirement.startswith(PROJECT["name"])]


def needed(requirements: Iterable[str]) -> Iterator[str]:
    """The distributions that meet these requirements in this environment, with all that they need."""
    for text in requirements:
        requirement = Requirement(text)
        for extra in requirement.extras or {""}:
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                yield requirement.name
                below = distribution(requirement.name).requires or ()
                chosen = (Requirement(line) for line in below)
                yield from needed(
                    f"{r.name}[{','.join(r.extras)}]" if r.extras else r.name
                    for r in chosen
                    if r.marker is None or r.marker.evaluate({"extra": extra})
                )


@dataclass(frozen=True)
class Environment:
    """A virtual environment that has the wheel and, as links, installed packages."""

    path: Path

    @property
    def site_packages(self) -> Path:
        (directory,) = self.path.glob("lib/python3*/site-packages")
        return directory

    def add(self, requirements: Iterable[str]) -> None:
        for name in set(needed(requirements)):
            found = distribution(name)
            for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
                link = self.site_packages / top
                if not link.exists():
                    link.symlink_to(Path(str(found.locate_file(top))))

    def run(self, program: str, *arguments: str, cwd: Path, code: int = 0) -> str:
        """Run a program of the environment; return its output, with errors."""
        command = [str(self.path / "bin" / program), *arguments]
        done = subprocess.run(
            command, cwd=cwd, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600
        )
        assert done.returncode == code, done.stdout
        return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    flags = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(directory))
    subprocess.run([sys.executable, "-m", "pip", "wheel", *flags, str(HOME)], check=True, timeout=600)
    (file,) = directory.iterdir()
    return file


def environment(path: Path, wheel: Path, requirements: Iterable[str]) -> Environment:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(path)], check=True)
    python = str(path / "bin" / "python")
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", str(wheel))
    subprocess.run(pip, check=True, timeout=600)
    made = Environment(path)
    made.add(requirements)
    return made


@pytest.fixture(scope="module")
def library(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return environment(tmp_path_factory.mktemp("library") / "venv", wheel, requirements())


@pytest.fixture(scope="module")
def cli(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return environment(tmp_path_factory.mktemp("cli") / "venv", wheel, requirements("cli"))


def test_the_wheel_puts_the_library_and_one_package_for_the_script_on_the_path(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"matchers", "sluice_app", f"sluice_pubsub-{VERSION}.dist-info"}
    assert {"matchers/py.typed", "matchers/papers/pem/kernel.py"} <= set(names)
    assert f"sluice_pubsub-{VERSION}.dist-info/licenses/LICENSE" in names
    assert not [name for name in names if re.search(r"__pycache__|\.nb[ic]$|\.md$|/tests/", name)]


def test_the_library_matches_and_explains_with_numpy_and_numba_alone(library: Environment, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    assert library.run("python", "program.py", cwd=tmp_path).splitlines() == [
        "[['s1'], []]",
        'held     symbol: wanted "IBM"; found "IBM"',
        "not held price: wanted > 100; found 90",
    ]


@pytest.mark.parametrize("name", ["bench", "commands", "config", "offline", "rig", "run_stream", "streaming", "tests"])
def test_no_other_module_of_ours_can_be_imported(library: Environment, tmp_path: Path, name: str) -> None:
    assert "ModuleNotFoundError" in library.run("python", "-c", f"import {name}", cwd=tmp_path, code=1)


def test_the_types_of_the_library_serve_a_strict_program(library: Environment, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    python = str(library.path / "bin" / "python")
    flags = ("--strict", "--python-executable", python, "--cache-dir", str(tmp_path / "cache"))
    mypy = [sys.executable, "-m", "mypy", *flags, "program.py"]
    done = subprocess.run(mypy, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout
    (tmp_path / "program.py").write_text(PROGRAM.replace("list[list[str]]", "list[int]"))
    done = subprocess.run(mypy, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=600)
    assert "Incompatible types in assignment" in done.stdout


def test_the_script_says_which_extra_a_command_needs(library: Environment, cli: Environment, tmp_path: Path) -> None:
    assert library.run("sluice", "--version", cwd=tmp_path) == f"sluice {VERSION}\n"
    assert "pip install 'sluice-pubsub[cli]'" in library.run("sluice", "--help", cwd=tmp_path, code=1)
    assert "pip install 'sluice-pubsub[client]'" in cli.run("sluice", "topics", "list", cwd=tmp_path, code=1)
    for command in ("run", "jars"):
        assert "pip install 'sluice-pubsub[job]'" in cli.run("sluice", command, cwd=tmp_path, code=1)
    assert "needs a checkout" in cli.run("sluice", "bench", "gate", cwd=tmp_path, code=1)


def test_the_commands_without_a_broker_need_the_extra_cli(cli: Environment, tmp_path: Path) -> None:
    watchlist, event = str(EXAMPLES / "watchlist.jsonl"), tmp_path / "event.json"
    event.write_text('{"symbol": "IBM", "price": 150}')
    assert "4 of 4" in cli.run("sluice", "validate", watchlist, cwd=tmp_path)
    assert json.loads(cli.run("sluice", "match", watchlist, str(event), "--json", cwd=tmp_path))
    assert "wanted" in cli.run("sluice", "explain", watchlist, '{"symbol": "none"}', cwd=tmp_path, code=1)
    assert " 0 failed" in cli.run("sluice", "test", str(EXAMPLES / "cases.yaml"), cwd=tmp_path)
    (tmp_path / "rule.sql").write_text("price > 100\n")
    translated = cli.run("sluice", "translate", "sql", "rule.sql", "--subscriber", "alice", cwd=tmp_path)
    assert json.loads(translated)["subscriber"] == "alice"
    assert json.loads(cli.run("sluice", "schema", cwd=tmp_path))
    bench = ("bench", "matchers", "-n", "500", "--algorithms", "scan", "--seconds", "0.1")
    assert "yes" in cli.run("sluice", *bench, cwd=tmp_path)


def test_the_extra_client_has_what_every_listed_command_imports(wheel: Path, tmp_path: Path) -> None:
    client = environment(tmp_path / "venv", wheel, requirements("cli", "client"))
    program = f"import sys, sluice_app\nsys.path.insert(0, str(sluice_app.CODE))\n{EVERY_HELP}"
    assert client.run("python", "-c", program, cwd=tmp_path).endswith("all\n")


def test_the_extra_job_runs_the_demo_once_the_jars_are_there(wheel: Path, tmp_path: Path) -> None:
    made = environment(tmp_path / "venv", wheel, requirements("cli", "client", "job"))
    demo = ("demo", "--events", "300", "--algorithm", "scan", "--json")
    assert "or `sluice jars` if pip has installed Sluice" in made.run("sluice", *demo, cwd=tmp_path, code=1)
    (made.site_packages / "sluice_app" / "code" / "jars").symlink_to(HOME / "jars")
    summary = json.loads(made.run("sluice", *demo, cwd=tmp_path).splitlines()[-1])
    assert (summary["missing"], summary["duplicated"]) == (0, 0)
    assert summary["deliveries"] > 0


def test_the_wheel_asks_for_versions_that_the_locks_are_made_of() -> None:
    lines = (HOME / "requirements.in").read_text().splitlines()
    known = {line.split("#")[0].strip() for line in lines}
    assert {*requirements(*EXTRAS)} <= known
    build = (HOME / "requirements-build.in").read_text()
    system = tomllib.loads((HOME / "pyproject.toml").read_text())["build-system"]
    assert all(requirement in build for requirement in system["requires"])


def test_a_citation_names_the_version() -> None:
    assert re.findall(r"^version: (.+)$", (HOME / "CITATION.cff").read_text(), re.MULTILINE) == [VERSION]
