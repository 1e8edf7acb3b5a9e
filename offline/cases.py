"""Run test cases from YAML: an event, and the subscriptions that must match it.

    subscriptions: subscriptions.jsonl    # a file beside this one, or a list or mapping (by id) of documents
    cases:
      - name: IBM in her range
        event: {symbol: IBM, price: 150}
        matches: [s1, s2]                 # these and no others; or by subscriber: `deliveries: {alice: [s1, s2]}`
        contains: [s1]                    # these, and maybe others
        excludes: [s3]                    # none of these

An expired subscription matches as before its expiry, so the result does not depend on the date. A paused subscription
matches nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matchers.errors import known
from offline.documents import Document, Event, Location, Rejection, latest, nearest, read, subscriptions
from offline.explain import verdict
from offline.files import InputError, content, name_of
from offline.match import SubscriberIndex, by_subscriber, words
from offline.yaml import load
from streaming.codecs import Undecodable
from streaming.codecs.depth import checked
from streaming.documents.verdicts import SubscriptionVerdict, indented
from streaming.text_format import plain

_64_BITS = range(-(2**63), 2**64)
_KEYS = ("subscriptions", "cases")
_CASE_KEYS = ("name", "event", "matches", "deliveries", "contains", "excludes")
_EXPECTED = _CASE_KEYS[2:]


@dataclass(frozen=True)
class Case:
    file: str
    name: str
    event: Event
    expected: Mapping[str, Any]  # as written: by `matches`, `deliveries`, `contains`, `excludes`

    def ids(self, key: str) -> set[str]:
        wanted = self.expected.get(key, ())
        return {id for ids in wanted.values() for id in ids} if isinstance(wanted, Mapping) else set(wanted)


@dataclass(frozen=True)
class CaseResult:
    """The outcome of a case."""

    case: Case
    found: dict[str, list[str]]  # ids by subscriber
    missing: list[SubscriptionVerdict]
    unexpected: list[SubscriptionVerdict]

    @property
    def passed(self) -> bool:
        return not self.missing and not self.unexpected

    def __str__(self) -> str:
        """The result as text, without the name of the case."""
        lines = [f"    expected {key}: {_words(wanted)}" for key, wanted in self.case.expected.items()]
        lines.append(f"    found {words(self.found)}")
        for label, verdicts in (("missing", self.missing), ("unexpected", self.unexpected)):
            for v in verdicts:
                lines.append(f"    {label} {v.who}:{v.idle and f' {v.idle}'}")
                lines.append(indented(v.failed or v.lines or ["held     {}: every event"], " " * 8))
        return "\n".join(lines)

    def as_data(self) -> dict[str, Any]:
        return {
            "file": self.case.file,
            "case": self.case.name,
            "passed": self.passed,
            "expected": self.case.expected,
            "found": self.found,
            "missing": [v.as_data() for v in self.missing],
            "unexpected": [v.as_data() for v in self.unexpected],
        }


def run(file: Path, algorithm: str) -> Iterator[CaseResult]:
    """Run the cases of a file. Raises InputError with all errors of the file before any case is tried."""
    documents, cases = _read(file)
    index = SubscriberIndex.of(documents.values(), algorithm)
    subscriptions = {d.subscription.id: d.subscription for d in documents.values()}
    for case, deliveries in zip(cases, index.deliveries([case.event for case in cases]), strict=True):
        ids = {id for matched in deliveries.values() for id in matched}
        yield _result(case, ids, documents, by_subscriber(subscriptions[id] for id in ids))


def _result(
    case: Case, ids: set[str], documents: Mapping[str, Document], deliveries: dict[str, list[str]]
) -> CaseResult:
    missing, unexpected = case.ids("contains") - ids, case.ids("excludes") & ids
    for exactly in ("matches", "deliveries"):
        if exactly in case.expected:
            missing |= case.ids(exactly) - ids
            unexpected |= ids - case.ids(exactly)

    def verdicts(of: Iterable[str]) -> list[SubscriptionVerdict]:
        return [verdict(documents[id], case.event) for id in sorted(of)]

    return CaseResult(case, deliveries, verdicts(missing), verdicts(unexpected))


def _read(file: Path) -> tuple[dict[str, Document], list[Case]]:
    name = name_of(file)
    whole = load(content(file), name)
    if not isinstance(whole, Mapping):
        raise InputError(f"{name}: must be a mapping with the keys {' and '.join(_KEYS)}, not {_kind(whole)}")
    problems = [f"unknown key {key!r}; {known(key, _KEYS)}" for key in whole if key not in _KEYS]
    problems += [f"the key {key!r} is missing" for key in _KEYS if key not in whole]
    if problems:
        raise InputError("\n".join(f"{name}: {problem}" for problem in problems))
    rejected: list[Rejection] = []
    documents = latest(_subscriptions(whole["subscriptions"], file), rejected.append)
    if rejected:
        raise InputError("\n".join(map(str, rejected)))
    if not isinstance(whole["cases"], list) or not whole["cases"]:
        raise InputError(f"{name}: cases must be a list of at least one case, not {_kind(whole['cases'])}")
    cases, problems = [], []
    for number, written in enumerate(whole["cases"], 1):
        written_name = written.get("name") if isinstance(written, Mapping) else None
        title = written_name if isinstance(written_name, str) else f"case {number}"
        of_case = list(_problems(written, documents))
        label = f"case {written_name!r}" if title == written_name else title
        problems += [f"{name}: {label}: {problem}" for problem in of_case]
        if not of_case:
            expected = {key: written[key] for key in _EXPECTED if key in written}
            cases.append(Case(name, title, _in_64_bits(written["event"]), expected))
    if problems:
        raise InputError("\n".join(problems))
    return documents, cases


def _subscriptions(written: Any, file: Path) -> Iterator[Document | Rejection]:
    name = name_of(file)
    if isinstance(written, str):
        yield from subscriptions(file.parent / written)
    elif isinstance(written, list):
        for number, document in enumerate(written, 1):
            yield read(Location(name, "subscription", number), None, document)
    elif isinstance(written, Mapping):
        for id, document in written.items():
            yield read(Location(name, "subscription", id), id, document)
    else:
        raise InputError(f"{name}: subscriptions must be a file, or a list or mapping, not {_kind(written)}")


def _in_64_bits(value: Any) -> Any:
    """A value of an event as the job reads it: integers beyond 64 bits as the nearest doubles."""
    if isinstance(value, dict):
        return {name: _in_64_bits(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_in_64_bits(child) for child in value]
    return float(value) if type(value) is int and value not in _64_BITS else value


def _problems(case: Any, documents: Mapping[str, Document]) -> Iterator[str]:
    if not isinstance(case, Mapping):
        yield f"must be a mapping with an event and what it matches, not {_kind(case)}"
        return
    for key in case:
        if key not in _CASE_KEYS:
            yield f"unknown key {key!r}; {known(key, _CASE_KEYS)}"
    if not isinstance(case.get("name", ""), str):
        yield f"name must be a string, not {_kind(case['name'])}"
    if not isinstance(case.get("event"), dict):
        yield f"event must be a mapping, not {_kind(case['event'])}" if "event" in case else "event is missing"
    else:
        try:
            checked(case["event"])
        except Undecodable as error:
            yield f"event is {error}"
    if not any(key in case for key in _EXPECTED):
        yield f"has no expected result; give one of {', '.join(_EXPECTED)}"
    for key in ("matches", "contains", "excludes"):
        if key in case:
            yield from _wrong_ids(key, case[key], documents)
    if "deliveries" in case:
        yield from _wrong_deliveries(case["deliveries"], documents)


def _wrong_deliveries(wanted: Any, documents: Mapping[str, Document]) -> Iterator[str]:
    if not isinstance(wanted, Mapping):
        yield f"deliveries must be lists of ids by subscriber, such as {{alice: [s1]}}, not {_kind(wanted)}"
        return
    subscribers = {d.subscription.subscriber for d in documents.values()}
    for subscriber, ids in wanted.items():
        if subscriber not in subscribers:
            yield f"deliveries: subscriber {subscriber!r} has no subscription; {nearest(subscriber, subscribers)}"
            continue
        wrong = list(_wrong_ids("deliveries", ids, documents))
        yield from wrong
        for id in ids if not wrong else ():
            owner = documents[id].subscription.subscriber
            if owner != subscriber:
                yield f"deliveries: {id!r} is {owner}'s and never {subscriber}'s"


def _wrong_ids(key: str, ids: Any, documents: Mapping[str, Document]) -> Iterator[str]:
    if not isinstance(ids, list):
        yield f"{key} must be a list of ids, such as [s1], not {_kind(ids)}"
        return
    for id in ids:
        if not isinstance(id, str):
            yield f"{key}: an id must be a string, not {_kind(id)}; put it in quotes"
        elif id not in documents:
            yield f"{key}: no subscription has the id {id!r}; {nearest(id, documents)}"


def _words(wanted: Any) -> str:
    return words(wanted) if isinstance(wanted, dict) else ", ".join(map(plain, wanted)) or "nothing"


def _kind(value: object) -> str:
    names = {dict: "a mapping", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return names.get(type(value), "nothing")
