"""The console's pages: what they show, to whom, and that they keep nobody waiting."""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from matchers.index.snapshot import Snapshot
from streaming.admin.dead_letters import DeadLetterPosition, StoredDeadLetter
from streaming.console import console as answers
from streaming.console.console import Console
from streaming.console.dead_letters import LastLetters
from streaming.console.search import FoundSubscription
from streaming.documents.records import Origin
from streaming.documents.subscriber_metrics import LookedUp, SubscriptionMetrics
from streaming.kafka.clients import Cluster
from streaming.monitoring.web import connections, server
from streaming.monitoring.web.access import Access
from streaming.monitoring.web.console.pages import ANSWERS
from streaming.monitoring.web.elements import PAGES, POLICY
from streaming.monitoring.web.server import Server
from streaming.tenants import OWN, Tenant, change_partition
from streaming.worker.compiling import compile_changes
from tests.support.doubles.stage import changes
from tests.support.patience import PATIENCE_S
from tests.unit.streaming.monitoring.test_monitoring import ANN, HOSTILE, Tags, busy
from tests.unit.streaming.monitoring.test_server import ask, connected

NOWHERE = Cluster("127.0.0.1:1", {})
ACME = Tenant("acme.subs", "acme.status", "acme", prefix="acme-")
TENANTS = {OWN: Tenant("subs"), ACME.number: ACME}
TOKEN = "0123456789abcdef"
NASTY = [
    "<script>alert(1)</script>",
    '"onfocus="alert(1)',
    "'&amp;",
    "\x00\x1b[2J",
    "x" * 10_000,
    "\u2028",
    "../..",
    "",
]


def document(id: str, subscriber: str = "ann", **more: Any) -> tuple[bytes, bytes]:
    return id.encode(), json.dumps({"id": id, "subscriber": subscriber, "pattern": {"x": [1]}, **more}).encode()


def snapshot_of(*documents: tuple[bytes, bytes]) -> Snapshot:
    return Snapshot(algorithm="scan").update(compile_changes(changes(documents)).segment)


def console_of(snapshot: Callable[[], Snapshot | None], **more: Any) -> Console:
    return Console(NOWHERE, TENANTS, "dead", 0, snapshot, **more)


def served(console: Console | None, token: str = "", host: str = "127.0.0.1") -> Server:
    return Server(host, 0, busy, console, token)


def shown(server: Server, path: str, **fields: str) -> tuple[int, Tags]:
    code, headers, body = ask(server, f"{path}?{urlencode(fields)}")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    found = Tags()
    found.feed(body.decode())
    return code, found


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "TIMEOUT_S", 0.05)


@pytest.fixture
def some() -> Iterator[Server]:
    snapshot = snapshot_of(document("s1"), document("s2", paused=True), document("other", "bob"))
    metrics = SubscriptionMetrics("q", "ann", "s1", 12_345, 0, 1)
    look_up = LookedUp({"ann": ANN}, {"s1": metrics})
    with served(console_of(lambda: snapshot, look_up=lambda *_: look_up)) as found:
        yield found


# --- what they show ---


def test_subscriptions_are_found_by_id_and_by_subscriber(some: Server) -> None:
    _, found = shown(some, "/subscriptions", q="s")
    assert "3 subscriptions" in found.text
    assert "s1annin force-subs 0:012,345-s2annpaused-subs 0:10-" in found.text
    _, found = shown(some, "/subscriptions", subscriber="bob")
    assert "otherbobin force-subs 0:20-" in found.text
    assert "1 of 3 subscriptions are those of “bob”" in found.text
    assert "none has an id that contains “zz”" in shown(some, "/subscriptions", q="zz")[1].text


def test_a_subscription_has_its_facts_and_says_why_its_document_is_not_there(some: Server) -> None:
    code, found = shown(some, "/subscription", id="s1")
    assert code == 200
    for text in ("statusin force", "subs 0:0", "subs cannot be read: no answer", "matches12,345", "deliveries7"):
        assert text in found.text
    code, found = shown(some, "/subscription", id="s3")
    assert code == 404
    assert "No subscription in force or paused has the id “s3”" in found.text


def test_subscribers_have_their_metrics(some: Server) -> None:
    _, found = shown(some, "/subscribers", q="")
    assert "ann274.0 kB21970-01-12 13:30:00" in found.text
    assert "bob1----" in found.text
    with served(console_of(lambda: snapshot_of(document("s1")))) as uncounted:
        assert "metrics.topic is empty" in shown(uncounted, "/subscribers")[1].text
        assert "not counted: metrics.topic is empty" in shown(uncounted, "/subscription", id="s1")[1].text


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("path", ["/subscriptions", "/subscription?id=s1", "/subscribers"])
def test_metrics_that_lack_the_past_say_so(path: str, is_whole: bool) -> None:
    look_up = LookedUp({}, {}, is_whole)
    with served(console_of(lambda: snapshot_of(document("s1")), look_up=lambda *_: look_up)) as found:
        assert (b"what was counted before is still being read" in ask(found, path)[2]) is not is_whole


def test_an_event_has_its_matches_and_each_can_be_explained(some: Server) -> None:
    code, found = shown(some, "/match", event='{"x": 1}')
    assert code == 200
    assert "2 subscriptions match it now" in found.text
    assert found.tags.count("button") == 3  # one of the form, two of the matches
    _, found = shown(some, "/match", event='{"x": 1}', id="s1")
    assert "“s1” cannot be explained: subs cannot be read: no answer" in found.text
    _, found = shown(some, "/match", event="{}", id="s9")
    assert "0 subscriptions match it now" in found.text
    assert "“s9” cannot be explained: no subscription in force has this id" in found.text


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object but an array"),
        ('{"x": ' + "[" * 70 + "]" * 70 + "}", "nested deeper than 64 levels"),
    ],
)
def test_what_is_no_event_is_rejected_with_the_reason(some: Server, event: str, why: str) -> None:
    code, found = shown(some, "/match", event=event)
    assert code == 400
    assert why in found.text


def test_more_matches_than_the_job_delivers_are_said() -> None:
    snapshot = snapshot_of(*(document(f"s{i}") for i in range(150)))
    with served(Console(NOWHERE, TENANTS, "dead", 149, lambda: snapshot)) as found:
        text = shown(found, "/match", event='{"x": 1}')[1].text
        assert "150 subscriptions match it now" in text
        assert "100 are shown" in text
        assert "more than matching.max_per_event = 149" in text


def test_without_a_broker_the_dead_letters_say_so(some: Server) -> None:
    code, found = shown(some, "/dead-letters")
    assert code == 503
    assert "dead cannot be read" in found.text


@pytest.mark.parametrize("path", sorted(ANSWERS.keys() - {"/dead-letters"}))
def test_while_the_state_is_restored_a_page_says_so(path: str) -> None:
    with served(console_of(lambda: None)) as restoring:
        code, found = shown(restoring, path, event="{}")
        assert code == 503
        assert "the state is being restored" in found.text


# --- texts from outside ---


@pytest.mark.parametrize("nasty", NASTY, ids=range(len(NASTY)))
@pytest.mark.parametrize("path", sorted(ANSWERS))
def test_no_text_from_outside_becomes_a_part_of_a_page(path: str, nasty: str) -> None:
    snapshot = snapshot_of(document(HOSTILE.replace("\ud800", "")), document("<b>&'\"", "eve"))
    fields = dict.fromkeys(("q", "id", "subscriber"), nasty) | {"event": json.dumps({"x": 1, nasty[:200]: nasty})}
    with served(console_of(lambda: snapshot)) as found:
        _, headers, body = ask(found, f"{path}?{urlencode(fields)}")
        assert headers["Content-Security-Policy"] == POLICY
        text = body.decode()
        tags = Tags()
        tags.feed(text)
        assert "script" not in tags.tags
        assert tags.tags.count("style") == 1
        assert not [name for name in tags.attributes if name.startswith("on") or name in ("style", "src")]
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u2028]", text)
        assert all(link.startswith("/") and not link.startswith("//") for link in tags.links)


LETTER = StoredDeadLetter(DeadLetterPosition(0, 7), 1_700_000_000_000, "oversize", "too large", b"k", b"{}", [])


class OfLetters(Console):
    def dead_letters(self) -> LastLetters:
        hostile = replace(
            LETTER,
            reason=HOSTILE,
            detail=HOSTILE,
            key=b"\xff\x00",
            value=HOSTILE.encode(errors="replace") * 1_000,
            headers=[(HOSTILE, HOSTILE.encode(errors="replace"))] * 21,
            subscriber=HOSTILE,
            origin=Origin(HOSTILE, 1, 2, 3),
            ids=json.dumps([HOSTILE]),
            redriven=True,
        )
        left_out = replace(LETTER, value=None, about={"value_bytes": "12345"})
        binary = replace(LETTER, value=b"\xff\xfe")
        return LastLetters([hostile, left_out, binary, replace(LETTER, key=None, value=None)], False)


def test_dead_letters_are_shown_with_their_records_and_stay_texts() -> None:
    with served(OfLetters(NOWHERE, TENANTS, "dead", 0, lambda: None)) as found:
        body = ask(found, "/dead-letters")[2].decode()
        _, tags = shown(found, "/dead-letters")
    assert "script" not in tags.tags
    assert (tags.tags.count("details"), tags.tags.count("tr")) == (4, 5)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u2028]", body)
    assert len(body) < 30_000
    for text in (
        "2023-11-14 22:13:20 UTC",
        '<script>alert("x")</script>',
        ", redriven",
        "... 21 headers",
        f"... {1_000 * len(HOSTILE.encode(errors='replace')):,} bytes",
        "the value, 12345 bytes, was left out",
        "00000000  ff fe",
        "not all records could be read in time",
    ):
        assert text in tags.text


def test_a_link_leads_to_the_subscription_whatever_its_id() -> None:
    ids = ["a b&c=d#e?f%20+g", "<b>'\"", "ü/../\x00\n", "x" * 200]
    snapshot = snapshot_of(*map(document, ids))
    with served(console_of(lambda: snapshot)) as found:
        for id, link in zip(ids, shown(found, "/subscriptions")[1].links[len(PAGES) + 1 :: 2], strict=True):
            assert link == f"/subscription?{urlencode({'id': id})}"
            assert ask(found, link)[0] == 200


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", 200),
        ("q", 200),
        ("q=%", 200),
        ("q=%ff%fe", 200),
        ("q=a&q=b", 200),
        ("=&&&=", 200),
        ("other=1", 200),
        ("&".join(f"f{i}=1" for i in range(99)), 400),
    ],
)
def test_any_address_is_answered(some: Server, query: str, code: int) -> None:
    assert ask(some, f"/subscriptions?{query}")[0] == code


def test_an_event_that_is_too_long_is_told_what_takes_it(some: Server) -> None:
    longest = connections.MAX_REQUEST_BYTES
    code, _, body = ask(some, f"/match?event={quote(json.dumps({'x': 'y' * longest}))}")
    assert code == 414
    assert b"`run_stream.py explain` takes longer events" in body
    assert ask(some, f"/match?event={quote(json.dumps({'x': 'y' * (longest // 2)}))}")[0] == 200


def test_a_request_whose_end_lies_beyond_the_most_bytes_is_too_long_however_it_arrives(some: Server) -> None:
    start = b"GET /match?event=" + b"y" * (connections.MAX_REQUEST_BYTES - 1_000)
    with connected(some) as client:
        client.sendall(start)
        time.sleep(0.1)  # the server reads it
        client.sendall(b"y" * 2_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.makefile("rb").readline().split()[1] == b"414"


@pytest.mark.parametrize("path", sorted(ANSWERS.keys() - {"/subscription"}))
def test_every_page_marks_its_link_and_labels_its_fields(some: Server, path: str) -> None:
    body = ask(some, path)[2].decode()
    assert re.findall(r'href="([^"]*)" aria-current="page"', body) == [path]
    assert re.findall(r'href="([^"]*)"', body)[: len(PAGES)] == [of for of, _ in PAGES]
    fields = re.findall(r'<(?:input|textarea)[^>]* id="([^"]*)"', body)
    assert re.findall(r'<label for="([^"]*)"', body) == fields
    assert "<script" not in body


# --- to whom ---


def basic(token: str, user: str = "any") -> str:
    return "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()


@pytest.mark.parametrize(
    ("authorization", "code"),
    [
        ("", 401),
        (f"Bearer {TOKEN}", 200),
        (f"bearer  {TOKEN} ", 200),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        ("Bearer", 401),
        ("Bearer \xff", 401),
        (TOKEN, 401),
        (basic(TOKEN), 200),
        (basic(TOKEN, ""), 200),
        (basic(f"{TOKEN}:"), 401),
        (basic("", TOKEN), 401),
        ("Basic %%%", 401),
        ("Basic", 401),
    ],
)
def test_with_a_token_only_who_has_it_sees_the_console(authorization: str, code: int) -> None:
    with served(console_of(lambda: snapshot_of(document("secret-id"))), TOKEN, "0.0.0.0") as found:
        answered, headers, body = ask(found, "/subscriptions", Authorization=authorization)
        assert answered == code
        assert (b"secret-id" in body) == (code == 200)
        assert headers["WWW-Authenticate"] == (None if code == 200 else 'Basic realm="Sluice", charset="UTF-8"')


def test_elsewhere_than_on_loopback_nobody_sees_the_console_without_a_token() -> None:
    snapshot = snapshot_of(document("secret-id"))
    with served(console_of(lambda: snapshot), host="0.0.0.0") as found:
        for path in ANSWERS:
            code, _, body = ask(found, path, Authorization=basic(""))
            assert (code, b"set monitoring.token" in body) == (403, True)
        code, _, body = ask(found, "/")
        assert (code, b"<nav" in body) == (200, False)
        assert {ask(found, path)[0] for path in ("/status.json", "/metrics", "/health", "/ready")} == {200}
    assert Access(TOKEN, is_loopback=True).rejection("") is not None
    assert Access("", is_loopback=True).rejection("") is None


def test_the_status_page_leads_to_the_console_where_there_is_one(some: Server) -> None:
    assert b'<a href="/" aria-current="page">Status</a>' in ask(some, "/")[2]
    with served(None) as without:
        assert b"<nav" not in ask(without, "/")[2]
        assert {ask(without, path)[0] for path in ANSWERS} == {404}


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "image"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Dest": "iframe"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "empty"}, 200),
        ({"Sec-Fetch-Site": "none", "Sec-Fetch-Dest": "document"}, 200),
        ({"Host": "evil.example"}, 421),
    ],
)
def test_pages_of_other_sites_get_nothing(some: Server, headers: dict[str, str], code: int) -> None:
    assert ask(some, "/subscriptions", **headers)[0] == code


# --- and nobody waits ---


class Slow:
    """A state that is there once `go` is set."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Semaphore(0)

    def __call__(self) -> Snapshot:
        self.begun.release()
        assert self.go.wait(PATIENCE_S)
        return snapshot_of(document("s1"))


def asking(server: Server, found: list[int], path: str = "/subscriptions") -> threading.Thread:
    def run() -> None:
        with suppress(OSError, HTTPException):  # the server may end
            found.append(ask(server, path)[0])

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_while_a_page_is_made_all_else_is_answered_and_too_many_are_sent_away() -> None:
    slow, found = Slow(), list[int]()
    with served(console_of(slow)) as made:
        threads = [asking(made, found)]
        assert slow.begun.acquire(timeout=PATIENCE_S)
        threads += [asking(made, found) for _ in range(server.MOST_WAITING - 1)]
        while len(made._waiting) < server.MOST_WAITING:
            assert ask(made, "/health")[0] == 200
        assert {ask(made, path)[0] for path in ("/", "/metrics", "/ready", "/status.json")} == {200}
        code, _, body = ask(made, "/match")
        assert (code, b"busy" in body) == (HTTPStatus.SERVICE_UNAVAILABLE, True)
        assert not slow.begun.acquire(blocking=False)  # one at a time
        assert found == []
        slow.go.set()
        for thread in threads:
            thread.join()
        assert found == [200] * server.MOST_WAITING
        assert ask(made, "/match")[0] == 200


def test_whoever_lacks_the_token_does_not_keep_the_console_busy() -> None:
    slow = Slow()
    with served(console_of(slow), TOKEN) as made, ThreadPoolExecutor(1) as other:
        page = other.submit(ask, made, "/subscriptions", Authorization=basic(TOKEN))
        assert slow.begun.acquire(timeout=PATIENCE_S)
        for _ in range(2 * server.MOST_WAITING):
            assert ask(made, "/subscriptions")[0] == HTTPStatus.UNAUTHORIZED
        assert len(made._waiting) == 1
        slow.go.set()
        assert page.result()[0] == HTTPStatus.OK


def test_a_page_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LATE_S", 0.05)
    slow = Slow()
    with served(console_of(slow)) as made:
        code, _, body = ask(made, "/subscriptions")
        assert (code, b"did not answer within" in body) == (HTTPStatus.SERVICE_UNAVAILABLE, True)
        assert ask(made, "/health")[0] == 200
        slow.go.set()
        monkeypatch.setattr(connections, "LATE_S", PATIENCE_S)
        assert ask(made, "/subscriptions")[0] == 200


def test_nothing_is_left_of_pages_that_are_made_while_the_job_ends() -> None:
    before = threading.active_count()
    slow, found = Slow(), list[int]()
    with served(console_of(slow)) as made:
        threads = [asking(made, found) for _ in range(2)]
        assert slow.begun.acquire(timeout=PATIENCE_S)
        threading.Timer(2.0, slow.go.set).start()
    for thread in threads:
        thread.join()
    assert not slow.begun.acquire(blocking=False)  # the other was not begun
    while threading.active_count() > before:
        pass


def test_the_document_of_a_tenants_subscription_lies_in_its_topic() -> None:
    found = FoundSubscription("acme/s1", "acme-1", False, None, change_partition(ACME.number, 3), 7)
    assert console_of(lambda: None).place(found) == "acme.subs 3:7"
