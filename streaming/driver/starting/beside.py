"""Enter a context in a thread, so that it may take its time while other work goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

AGAIN_S = 0.05


class Entered(AbstractContextManager[T]):
    """A context of the value of another one, which a thread enters, and which ends with it."""

    def __init__(self, entering: Future[T], entered: ExitStack) -> None:
        self._entering, self._entered = entering, entered

    def value(self) -> T:
        """Wait until the other is entered. Raises its error."""
        return self._entering.result()

    def __enter__(self) -> T:
        return self.value()

    def __exit__(self, *error: Any) -> None:
        self._entered.__exit__(*error)


@contextmanager
def beside(context: AbstractContextManager[T], give_up: Callable[[], object] = lambda: None) -> Iterator[Entered[T]]:
    """Enter a context in a thread. If nobody enters the one that this gives, the other ends all the same, once it is
    entered. At the end of the block `give_up` is called again and again until that is so: it may let entering fail."""
    with ThreadPoolExecutor(1) as pool, ExitStack() as entered:
        entering = pool.submit(entered.enter_context, context)
        try:
            yield Entered(entering, entered)
        finally:
            while not entering.done():
                give_up()
                wait([entering], AGAIN_S)
