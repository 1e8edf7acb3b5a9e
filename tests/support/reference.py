"""The reference of the Python client in docs/client.md, from its docstrings.

python -m tests.support.reference            print it
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any

from streaming import client

OPEN = ("Replay",)  # a `with` block gets it from the client: its fields are not for users


def reference() -> str:
    """A section for each name that the client offers, in its order."""
    return "\n".join(line for name in client.__all__ for line in _section(name, getattr(client, name)))


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


def _method(owner: str, method: str, function: Any) -> Iterator[str]:
    if isinstance(function, property) and function.__doc__:
        yield f"`{method}`: {_text(function)}"
    elif inspect.isfunction(function) and function.__doc__:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
        assert isinstance(definition, ast.FunctionDef)
        definition.args.args.pop(0)  # self
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
