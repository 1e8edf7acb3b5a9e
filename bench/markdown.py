"""Write tables in Markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain


def table_lines(head: Sequence[str], rows: Iterable[Sequence[str]], texts: Collection[int] = (0,)) -> Iterator[str]:
    """Yield each line of a table when its row is there. `texts`: the columns that are aligned to the left."""
    sides = ["---" if i in texts else "---:" for i in range(len(head))]
    for cells in chain((head, sides), rows):
        yield f"| {' | '.join(cells)} |\n"
