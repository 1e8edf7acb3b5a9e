"""Processes of a test: threads of which one runs at a time, and which stop and go on where the test says so."""

from __future__ import annotations

from collections.abc import Callable
from threading import Semaphore, Thread
from typing import Any

NEW, RUNNING, PARKED, ENDED = "new", "running", "parked", "ended"


class Dead(BaseException):
    """The process was killed, and nothing that it would still do happens."""


class Actor:
    """`facts` are what a test wants to know of the one that runs (`Actors.current`)."""

    def __init__(self, actors: Actors, facts: Any, work: Callable[[], Any]) -> None:
        self.facts = facts
        self.state = NEW
        self.why = ""  # it is parked
        self.result: Any = None
        self.error: BaseException | None = None
        self._actors = actors
        self._work = work
        self._killed = False
        self._turn, self._back = Semaphore(0), Semaphore(0)

    def go(self) -> None:
        """Let it run until it parks or ends."""
        assert self.state in (NEW, PARKED)
        before, self._actors.current = self._actors.current, self
        if self.state == NEW:
            Thread(target=self._run, daemon=True).start()
        else:
            self._turn.release()
        self._back.acquire()
        self._actors.current = before

    def park(self, why: str) -> None:
        """Called by itself: do nothing until the next `go`. Raises Dead."""
        self.state, self.why = PARKED, why
        self._back.release()
        self._turn.acquire()
        self.state = RUNNING
        self.check()

    def check(self) -> None:
        if self._killed:
            raise Dead

    def doom(self) -> None:
        """Let the actor die as soon as it continues."""
        self._killed = True

    def die(self) -> None:
        """Called by itself."""
        self._killed = True
        raise Dead

    def kill(self) -> None:
        self._killed = True
        if self.state == PARKED:
            self.go()
        self.state = ENDED

    def _run(self) -> None:
        self.state = RUNNING
        try:
            self.result = self._work()
        except BaseException as error:
            self.error = error
        self.state = ENDED
        self._back.release()


class Actors:
    """The actors of a test."""

    def __init__(self) -> None:
        self.current: Actor | None = None

    @property
    def running(self) -> Actor:
        assert self.current is not None
        return self.current
