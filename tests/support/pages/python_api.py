"""Generate docs/python-api.md from docstrings."""

from __future__ import annotations

import matchers
import streaming
from streaming.driver import launch
from tests.support.reference import function_of, reference

HEAD = """# Python API

[The matching library](#matchers) matches events in your process. [`streaming.start`](#streaming) runs the job in a
Spark session of your own. The [Python client](client.md) subscribes and reads deliveries; its page has its reference.

`python -m tests.support.pages` generates this page from docstrings.

## `matchers`

`pip install .` installs it ([how](library.md)). Most programs need `Index` and `MatchingError` only. The other names
are for programs that call an algorithm directly ([matchers/README.md](../matchers/README.md)).

"""

STREAMING = """
## `streaming`

For a program that makes its Spark session itself, [such as a notebook](how-to/spark-submit.md).

"""

FIRST = ("Index", "MatchingError", "PatternError", "Explanation", "Alternatives")


def page() -> str:
    names = dict.fromkeys([*FIRST, *matchers.__all__])
    parts = [function_of(name, getattr(streaming, name)) for name in ("start", "spark_defaults")]
    parts.append(reference(launch, ["Handle"]))
    return f"{HEAD}{reference(matchers, names)}{STREAMING}{''.join(parts).rstrip()}\n"
