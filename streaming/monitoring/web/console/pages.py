"""Answer a request for one of the console's pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from urllib.parse import parse_qsl

from streaming.console.console import Console
from streaming.errors import JobError
from streaming.monitoring.web.console import dead_letters, match, subscribers, subscription, subscriptions
from streaming.monitoring.web.console.frame import ConsoleAnswer, Fields, framed, problem

MOST_FIELDS = 10
ANSWERS: Mapping[str, Callable[[Console, Fields], ConsoleAnswer]] = {
    page.PATH: page.answer for page in (subscriptions, subscription, subscribers, match, dead_letters)
}


def answer(console: Console, path: str, query: str) -> ConsoleAnswer:
    """The page of a path of ANSWERS; of a field that is there several times the last counts."""
    try:
        fields = dict(parse_qsl(query, keep_blank_values=True, errors="replace", max_num_fields=MOST_FIELDS))
    except ValueError:
        return unanswered(path, f"An address has at most {MOST_FIELDS} fields.", HTTPStatus.BAD_REQUEST)
    try:
        return ANSWERS[path](console, fields)
    except JobError as error:
        return unanswered(path, str(error), HTTPStatus.SERVICE_UNAVAILABLE)


def unanswered(path: str, why: str, status: HTTPStatus) -> ConsoleAnswer:
    return framed("No answer", path, problem(why), status=status)
