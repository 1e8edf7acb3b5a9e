"""A real browser shows the pages: on a phone, in the dark, without scripts, and by keyboard alone."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote, urlencode

import pytest

from matchers.index.snapshot import Snapshot
from streaming.console import console as answers
from streaming.console.console import Console
from streaming.kafka.clients import Cluster
from streaming.monitoring.web.server import Server
from streaming.tenants import OWN, Tenant
from tests.support.browser import PROGRAM, Browser, browser
from tests.unit.streaming.monitoring.test_console import TOKEN, document, snapshot_of
from tests.unit.streaming.monitoring.test_monitoring import busy

pytestmark = pytest.mark.skipif(not PROGRAM, reason="there is no chromium on the PATH")

EVENT = '{"x": 1}'
HOSTILE = '<script>alert("x")</script>&\'"'
LONG = "long-" * 40
PAGES = (
    "/",
    "/subscriptions",
    f"/subscriptions?{urlencode({'q': 's', 'subscriber': 'ann'})}",
    "/subscription?id=s1",
    "/subscribers",
    "/match",
    f"/match?{urlencode({'event': EVENT, 'id': 's1'})}",
)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def state() -> Snapshot:
    return snapshot_of(document("s1"), document("s2", paused=True), document(LONG, LONG), document(HOSTILE))


@pytest.fixture
def console(state: Snapshot, monkeypatch: pytest.MonkeyPatch) -> Console:
    monkeypatch.setattr(answers, "TIMEOUT_S", 0.05)
    return Console(Cluster("127.0.0.1:1", {}), {OWN: Tenant("subs")}, "dead", 0, lambda: state)


@pytest.fixture
def url(console: Console) -> Iterator[str]:
    with Server("127.0.0.1", 0, busy, console) as server:
        yield server.url


def focus(browser: Browser) -> str:
    """The id of the element with the focus, else its text."""
    return str(browser.value("document.activeElement.id || document.activeElement.textContent"))


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("width", [360, 1280])
def test_no_page_is_wider_than_the_screen_and_none_breaks_its_policy(
    chromium: Browser, url: str, path: str, width: int
) -> None:
    chromium.show(width, 640)
    chromium.open(f"{url}{path}")
    assert chromium.value("[innerWidth, document.documentElement.scrollWidth]") == [width, width]
    assert chromium.complaints == []


def test_what_the_policy_forbids_would_be_seen(chromium: Browser, url: str) -> None:
    chromium.open(f"{url}/subscriptions")
    chromium.value("document.body.setAttribute('onclick', 'alert(1)'); document.body.click()")
    assert "Content Security Policy" in str(chromium.complaints)


@pytest.mark.parametrize("path", PAGES)
def test_light_and_dark_are_as_the_reader_wants_them(chromium: Browser, url: str, path: str) -> None:
    colours = []
    for dark in (False, True):
        chromium.show(800, 600, dark=dark)
        chromium.open(f"{url}{path}")
        ground, ink = chromium.value(
            "['backgroundColor', 'color'].map(of => getComputedStyle(document.body)[of].match(/\\d+/)[0])"
        )
        assert abs(int(ground) - int(ink)) > 150, "nobody can read that"
        colours.append(int(ground))
    assert colours[0] > 200 > 50 > colours[1]


def test_everything_is_within_reach_of_the_keyboard_without_scripts(chromium: Browser, url: str) -> None:
    chromium.show(800, 600)
    chromium.allow_scripts(False)
    try:
        chromium.open(f"{url}/subscriptions")
        reached = []
        for _ in range(8):
            chromium.press("Tab")
            reached.append(focus(chromium))
            assert chromium.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        pages = ["Status", "Subscriptions", "Subscribers", "Match an event", "Dead letters"]
        assert reached == [*pages, "q", "subscriber", "Search"]
        chromium.value("document.getElementById('q').focus()")
        chromium.write("s2")
        chromium.press("Enter")
        chromium.until_loaded()
        assert chromium.value("location.href") == f"{url}/subscriptions?q=s2&subscriber="
        assert chromium.value("document.querySelectorAll('section.rows tr').length") == 2
        assert "s2\tann\tpaused" in chromium.value("document.body.innerText")
    finally:
        chromium.allow_scripts(True)


def test_the_reason_for_a_match_is_one_key_away(chromium: Browser, url: str) -> None:
    chromium.show(800, 600)
    chromium.open(f"{url}/match")
    chromium.value("document.getElementById('event').focus()")
    chromium.write(EVENT)
    for _ in range(2):  # over the id to the button
        chromium.press("Tab")
    assert focus(chromium) == "Match"
    chromium.press("Enter")
    chromium.until_loaded()
    assert "3 subscriptions match it now" in chromium.value("document.body.innerText")
    chromium.value("document.querySelector('td button').focus()")
    chromium.press("Enter")
    chromium.until_loaded()
    assert chromium.value("document.getElementById('id').value") == "s1"
    assert chromium.value("document.getElementById('event').value") == EVENT
    assert "Why “s1”" in chromium.value("document.body.innerText")
    assert chromium.complaints == []


def test_a_hostile_id_is_text(chromium: Browser, url: str) -> None:
    chromium.open(f"{url}/subscriptions?q={quote('<script>')}")
    link = "[...document.querySelectorAll('td a')].find(link => link.textContent.startsWith('<script>'))"
    chromium.events.clear()
    chromium.value(f"{link}.click()")
    chromium.until_loaded()
    assert chromium.value("document.querySelector('h1').textContent").startswith('<script>alert("x")</script>')
    assert chromium.complaints == []


def test_the_status_page_goes_on_by_itself_and_keeps_its_links(chromium: Browser, url: str) -> None:
    chromium.open(f"{url}/")
    chromium.value("document.querySelector('main').id = 'old'; document.querySelector('nav').id = 'links'")
    chromium.command("Runtime.evaluate", expression="next()", awaitPromise=True)
    assert chromium.value("[!document.getElementById('old'), !!document.getElementById('links')]") == [True, True]
    assert chromium.complaints == []


def test_a_browser_gives_the_token_as_a_password(chromium: Browser, console: Console) -> None:
    with Server("127.0.0.1", 0, busy, console, TOKEN) as server:
        chromium.open(server.url.replace("//", f"//any:{TOKEN}@") + "/subscriptions")
        assert "4 subscriptions" in chromium.value("document.body.innerText")
        assert chromium.complaints == []
