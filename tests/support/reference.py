"""The reference of a Python package, from its docstrings: what it offers, in its order.

python -m tests.support.reference            print that of the client, for docs/client.md
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from types import ModuleType
from typing import Any

from streaming import client

OPEN = ("Index", "Replay")  # a method makes them: their fields are not for users
MADE = ("EventBatch", "Index", "Interfaces", "SubscriptionTable")  # by a program, with methods of the class


def reference(package: ModuleType = client, names: Iterable[str] = client.__all__) -> str:
    """A section for each name."""
    return "\n".join(line for name in names for line in _section(name, getattr(package, name)))


def _section(name: str, offered: Any) -> Iterator[str]:
    yield f"### {name}\n"
    yield _text(offered)
    if is_dataclass(offered) or hasattr(offered, "_fields"):
        lines = inspect.getsource(offered).splitlines()
        fields = [line.strip() for line in lines if re.match(r"    [a-z]\w*: ", line)]
        if name not in OPEN:
            yield "\n".join(("```python", *fields, "```\n"))
    for method, function in vars(offered).items():
        if (method == "__init__" and name == "Client") or not method.startswith("_"):
            yield from _method(name, method, function)


def function_of(name: str, function: Any) -> str:
    """The section of a function."""
    return "\n".join((f"### {name}\n", *_method("", name, function, bound=False), ""))


def _method(owner: str, method: str, function: Any, *, bound: bool = True) -> Iterator[str]:
    """`bound`: without its first parameter, `self` or `cls`."""
    if isinstance(function, classmethod) and owner in MADE:
        function, method = function.__func__, f"{owner}.{method}"
    if isinstance(function, property) and function.__doc__:
        yield f"`{method}`: {_text(function)}"
    elif inspect.isfunction(function) and function.__doc__:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
        assert isinstance(definition, ast.FunctionDef)
        if bound:
            definition.args.args.pop(0)
        returns = f" -> {ast.unparse(definition.returns)}" if method != "__init__" and definition.returns else ""
        if hasattr(function, "__wrapped__"):  # a context manager is written as a generator
            returns = returns.replace("Iterator", "AbstractContextManager")
        called = owner if method == "__init__" else method
        yield f"```python\n{called}({ast.unparse(definition.args)}){returns}\n```\n"
        yield _text(function)


def _text(documented: Any) -> str:
    """A docstring as Markdown: code in it becomes a block."""
    text = inspect.getdoc(documented) or ""
    return re.sub(
        r"^    .*\n(?:(?:    .*)?\n)*(?=\S)",
        lambda code: f"```python\n{textwrap.dedent(code[0]).strip()}\n```\n\n",
        f"{text}\n",
        flags=re.MULTILINE,
    )


if __name__ == "__main__":
    sys.stdout.write(reference())
