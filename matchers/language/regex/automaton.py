"""Match texts with regular expressions in linear time: each character is read once, and nothing is tried twice.

An expression becomes a nondeterministic automaton (Thompson 1968). The sets of its states that texts lead to are kept
as they occur: they are the states of a deterministic one (Aho, Sethi and Ullman 1986, section 3.7), made only as far as
texts need it.

All automata of a process together keep MOST_KEPT states, 200 to 500 MB. At the next one they are forgotten, and made
again as texts need them. So memory has a bound, and an index may have as many expressions as that has room for without
one pushing out another at each event.
"""

from __future__ import annotations

from functools import cache

from matchers.language.regex.expressions import Alternation, Character, InOrder, Node, Repeat, Test, parse

MOST_KEPT = 2_000_000  # states of automata, and of the sets that they keep
_CHARACTERS = 10  # of an expression, with the members of [...], take as much memory as a state
_OF_AUTOMATON = 20  # states take as much memory as one without any
_KEPT_STEPS = 1_000  # of an automaton
_ACCEPTS = -1

_kept = 0

States = frozenset[int]


class Automaton:
    """A lazily built automaton. Several threads may match at the same time; they compute equal states."""

    def __init__(self, node: Node) -> None:
        self._tests: list[Test | None] = []  # of each state; None: it goes on without a character
        self._next: list[list[int]] = []
        self._start = self._closure([self._build(node, _ACCEPTS)])
        self._steps: dict[tuple[States, str], States] = {}
        _keep(len(self._tests) + _OF_AUTOMATON)

    def matches(self, text: str) -> bool:
        """Whether the expression accepts the whole text. Costs O(len(text) * states), and mostly O(len(text))."""
        states = self._start
        for character in text:
            known = self._steps.get((states, character))
            states = self._step(states, character) if known is None else known
            if not states:
                return False
        return _ACCEPTS in states

    def _step(self, states: States, character: str) -> States:
        passed: list[int] = []
        for state in states:
            test = self._tests[state] if state != _ACCEPTS else None
            if test is not None and test(character):
                passed += self._next[state]
        reached = self._closure(passed)
        if len(self._steps) >= _KEPT_STEPS:
            self._steps = {}
        self._steps[states, character] = reached
        _keep(len(reached) + 1)
        return reached

    def _closure(self, states: list[int]) -> States:
        """The states that wait for a character, or accept, and that these lead to without one."""
        reached, stack = set(), [*states]
        seen = {*states}
        while stack:
            state = stack.pop()
            if state == _ACCEPTS or self._tests[state] is not None:
                reached.add(state)
                continue
            fresh = [after for after in self._next[state] if after not in seen]
            seen.update(fresh)
            stack += fresh
        return frozenset(reached)

    def _state(self, test: Test | None, after: list[int]) -> int:
        self._tests.append(test)
        self._next.append(after)
        return len(self._tests) - 1

    def _build(self, node: Node, after: int) -> int:
        """The state in which a node begins that is followed by the state `after`."""
        if isinstance(node, Character):
            return self._state(node.test, [after])
        if isinstance(node, InOrder):
            for part in reversed(node.parts):
                after = self._build(part, after)
            return after
        if isinstance(node, Alternation):
            return self._state(None, [self._build(part, after) for part in node.parts])
        return self._repeated(node, after)

    def _repeated(self, node: Repeat, after: int) -> int:
        if node.most is None:
            loop = self._state(None, [after])
            self._next[loop].append(self._build(node.part, loop))
            first = loop
        else:
            first = after
            for _ in range(node.most - node.least):
                first = self._state(None, [after, self._build(node.part, first)])
        for _ in range(node.least):
            first = self._build(node.part, first)
        return first


@cache
def automaton(expression: str) -> Automaton:
    """Raises ExpressionError."""
    _keep(len(expression) // _CHARACTERS)
    return Automaton(parse(expression))


def _keep(states: int) -> None:
    """Count states that are kept from now on. Automata that match at the moment end with their text."""
    global _kept
    _kept += states
    if _kept > MOST_KEPT:
        _kept = 0
        automaton.cache_clear()
