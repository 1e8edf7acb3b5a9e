"""Every log line is in the catalogue, with its level and its fields, and the catalogue has no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from streaming.log_events import ERROR, EVENTS
from tests.support.documents import HOME

LEVELS = {"debug": "debug", "info": "info", "warning": "warning", "error": "error", "exception": "error"}
OF_LIBRARY = {"index_chosen": "matchers/algorithms/auto/__init__.py"}  # by a logger that does not know the catalogue
COMPUTED = {"batch_finished"}  # whose fields `Report.fields` computes
NOUN_WITH_UNIT = re.compile(r"[a-z]+(?:_[a-z]+)*")
VAGUE = {"of", "s", "ms", "from", "to", "said", "instead", "look_at", "done", "event", "timestamp", "level"}


class LogCall(NamedTuple):
    """A call of a logger in the code."""

    where: str
    level: str
    name: str
    fields: frozenset[str]


def log_calls() -> Iterator[LogCall]:
    for package in ("streaming", "rig", "commands"):
        for path in sorted((HOME / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                match node:
                    case ast.Call(ast.Attribute(ast.Name("log"), method)):
                        yield _log_call(f"{path.relative_to(HOME)}:{node.lineno}", method, node)


def _log_call(where: str, method: str, call: ast.Call) -> LogCall:
    assert method in LEVELS, f"{where}: log.{method}"
    match call.args:
        case [ast.Constant(str(name))]:
            pass
        case _:
            pytest.fail(f"{where}: the name of an event must be one constant")
    fields: set[str] = set()
    for keyword in call.keywords:
        match keyword:
            case ast.keyword(str(field)):
                fields.add(field)
            case ast.keyword(None, ast.Call(ast.Name("error_fields"))):
                fields.update(ERROR)
            case _:
                assert name in COMPUTED, f"{where}: name the fields, so that this test can read them"
    return LogCall(where, LEVELS[method], name, frozenset(fields))


CALLS = [*log_calls()]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.where}-{call.name}")
def test_a_log_line_is_as_the_catalogue_says(call: LogCall) -> None:
    assert call.name in EVENTS
    event = EVENTS[call.name]
    assert call.level == event.level
    assert call.fields <= {*event.fields}


def test_the_catalogue_has_nothing_that_is_not_logged() -> None:
    fields: dict[str, set[str]] = {}
    for call in CALLS:
        fields.setdefault(call.name, set()).update(call.fields)
    assert {*fields, *OF_LIBRARY} == {*EVENTS}
    for name, of in fields.items():
        assert name in COMPUTED or of == {*EVENTS[name].fields}, name
    for name, path in OF_LIBRARY.items():
        assert f'extra={{"event": "{name}"}}' in (HOME / path).read_text()


@pytest.mark.parametrize("name", EVENTS)
def test_names_are_words_and_sentences_are_sentences(name: str) -> None:
    event = EVENTS[name]
    for word in (name, *event.fields):
        assert NOUN_WITH_UNIT.fullmatch(word), word
    assert not VAGUE & {*event.fields}
    assert len({*event.fields}) == len(event.fields)
    assert {*event.json_only, *event.if_not_zero} <= {*event.fields}
    for sentence in (event.meaning, event.action):
        assert not sentence or ((sentence[0].isupper() or sentence[0] == "`") and sentence.endswith(".")), sentence


def test_every_module_that_logs_calls_its_logger_log() -> None:
    """The tests above find log calls by this name."""
    for package in ("streaming", "rig", "commands"):
        for path in (HOME / package).rglob("*.py"):
            if path != HOME / "streaming" / "log.py":
                for line in re.findall(r".*\blogger\(.*", path.read_text()):
                    assert re.fullmatch(r'log = logger\("sluice\.\w+"\)', line), f"{path}: {line}"
