"""Tell versions of an algorithm's code apart, so that each measurement says which code it is of.

A version is a digest of all definitions that an algorithm's package has or uses, followed by their names through
`matchers`, but for those that compile kernels or only name what a matcher is. Measurements of papers call `match`, so
methods called `alone`, and definitions of the package that nothing else uses, are left out, unless they are asked for.
Docstrings, comments, types of arguments, messages of exceptions, and the file in which a definition stands change
nothing. Python writes the definitions anew, and 3.12 writes some in another way than 3.11: versions of different
Pythons cannot be compared.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from copy import deepcopy
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

HOME = Path(__file__).resolve().parents[2]
COLUMN = "code"  # of the CSV files
PACKAGE = "matchers"
NOT_TIMED = ("matchers.kernels.jit", "matchers.contract", "matchers.errors")
NOT_TIMED_METHOD = "alone"


class _Module(NamedTuple):
    """The definitions and imports at the top level of a module."""

    definitions: dict[str, list[ast.stmt]]
    not_timed: list[ast.stmt]  # methods
    imports: dict[str, tuple[str, str | None]]  # a module, and the name in it or None for the module itself


class CodeSources:
    """The sources of `matchers` in a directory."""

    def __init__(self, home: Path = HOME) -> None:
        self._modules = dict(_modules(home))

    def version(self, algorithm: str, *, alone: bool = False) -> str:
        """Ten hex digits; "" for an algorithm that is not there. With `alone`, those methods count too."""
        own = {name: module for name, module in self._modules.items() if algorithm in name.split(".")[1:]}
        methods = [(name, method) for name, module in own.items() for method in module.not_timed]
        of_methods = self._reached(one for name, method in methods for one in self._named(name, [method]))
        definitions = {(name, what) for name, module in own.items() for what in module.definitions}
        found = self._reached(definitions | of_methods if alone else definitions - of_methods)
        texts = [
            f"{name} {ast.unparse(node)}" for module, name in found for node in self._modules[module].definitions[name]
        ]
        texts += [ast.unparse(_Bare().visit(deepcopy(method))) for _, method in methods if alone]
        return _digest(sorted(texts)) if texts else ""

    def _reached(self, definitions: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
        """The definitions, and those that they use."""
        found: set[tuple[str, str]] = set()
        waiting = list(definitions)
        while waiting:
            if (one := waiting.pop()) not in found:
                found.add(one)
                module, name = one
                waiting += self._named(module, self._modules[module].definitions[name])
        return found

    def _named(self, module: str, nodes: Iterable[ast.stmt]) -> Iterator[tuple[str, str]]:
        """The definitions that the code of a module names."""
        for part in (part for node in nodes for part in ast.walk(node)):
            if isinstance(part, ast.Name):
                yield from self._definition(module, part.id)
            elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
                of, what = self._modules[module].imports.get(part.value.id, ("", None))
                yield from self._definition(of if what is None else f"{of}.{what}", part.attr)

    def _definition(self, module: str, name: str) -> Iterator[tuple[str, str]]:
        """The place where a name of a module is defined, if that is in `matchers`."""
        passed = set()
        while (module, name) not in passed and (here := self._modules.get(module)) is not None:
            passed.add((module, name))
            if name in here.definitions:
                if not module.startswith(NOT_TIMED):
                    yield module, name
                return
            module, what = here.imports.get(name, ("", None))
            name = what or ""


def _modules(home: Path) -> Iterator[tuple[str, _Module]]:
    for file in sorted((home / PACKAGE).rglob("*.py")):
        name = ".".join(file.relative_to(home).with_suffix("").parts).removesuffix(".__init__")
        module = _Module({}, [], {})
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                module.not_timed.extend(part for part in node.body if _is_not_timed(part))
            for defined in _defined(node):
                module.definitions.setdefault(defined, []).append(_Bare().visit(node))
            if isinstance(node, ast.Import):
                module.imports.update({alias.asname or alias.name: (alias.name, None) for alias in node.names})
            elif isinstance(node, ast.ImportFrom):
                module.imports.update(
                    {alias.asname or alias.name: (node.module or "", alias.name) for alias in node.names}
                )
        yield name, module


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]


def _is_not_timed(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == NOT_TIMED_METHOD


class _Bare(ast.NodeTransformer):
    """Take away what no measurement runs: methods that are not timed, docstrings, types of arguments, results and
    variables, and the arguments of exceptions that are raised."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self._without_docstring(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = [part for part in node.body if not _is_not_timed(part)]
        return self._without_docstring(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if isinstance(node.exc, ast.Call):
            node.exc.args, node.exc.keywords = [], []
        return self.generic_visit(node)

    def _without_docstring(self, node: ast.FunctionDef | ast.ClassDef) -> ast.AST:
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return self.generic_visit(node)


def _digest(texts: Iterable[str]) -> str:
    return blake2b("\n".join(texts).encode(), digest_size=5).hexdigest()


@cache
def code_version(algorithm: str) -> str:
    """The version of an algorithm's code here."""
    return _here().version(algorithm)


def code_version_of_all(algorithms: Iterable[str]) -> str:
    """The version of the code of several algorithms together, which match batches and events alone."""
    return _digest(f"{name} {_here().version(name, alone=True)}" for name in sorted(set(algorithms)))


@cache
def _here() -> CodeSources:
    return CodeSources()
