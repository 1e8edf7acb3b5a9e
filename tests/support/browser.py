"""Drive a Chromium as a person does: it opens pages, presses keys, and says what it complains of."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # which a container's root cannot have
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
KEYS = {"Tab": 9, "Enter": 13}
COMPLAINTS = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")


class Browser:
    """A page of a running browser, which speaks the DevTools protocol through a pair of pipes."""

    def __init__(self, commands: IO[bytes], answers: IO[bytes]) -> None:
        self._commands, self._answers = commands, answers
        self._read = b""
        self._number = 0
        self._session: dict[str, str] = {}
        self.events: list[dict[str, Any]] = []
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._session = {"sessionId": session}
        for domain in ("Page", "Runtime", "Log"):
            self.command(f"{domain}.enable")

    def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Do something; returns the result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters, **self._session}
        self._commands.write(json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, url: str) -> None:
        """Open a page, and wait until it is loaded."""
        self.events.clear()
        assert not self.command("Page.navigate", url=url).get("errorText")
        self.until_loaded()

    def until_loaded(self) -> None:
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def press(self, key: str) -> None:
        """Press and release a key of KEYS. Enter may load a page: wait `until_loaded`."""
        self.events.clear()
        text = {"text": "\r"} if key == "Enter" else {}
        code = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        self.command("Input.dispatchKeyEvent", type="keyDown", **code, **text)
        self.command("Input.dispatchKeyEvent", type="keyUp", **code)

    def write(self, text: str) -> None:
        """Write into the field that has the focus."""
        self.command("Input.insertText", text=text)

    def value(self, expression: str) -> Any:
        """The value of an expression of JavaScript, in the page."""
        return self.command("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def show(self, width: int, height: int, *, dark: bool = False, scale: float = 1.0) -> None:
        """Be a screen of this size, in CSS pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600}
        self.command("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", features=[scheme])

    def allow_scripts(self, allowed: bool) -> None:
        self.command("Emulation.setScriptExecutionDisabled", value=not allowed)

    def picture(self, path: Path) -> None:
        """Write what is to be seen as PNG."""
        path.write_bytes(base64.b64decode(self.command("Page.captureScreenshot", format="png")["data"]))

    @property
    def complaints(self) -> list[dict[str, Any]]:
        """Return what the browser and scripts have written to its console since the page was opened."""
        self.command("Page.getLayoutMetrics")  # what came before it is read then
        return [event["params"] for event in self.events if event.get("method") in COMPLAINTS]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            some = self._answers.read(1 << 20)
            assert some, "the browser has ended"
            self._read += some
        message, _, self._read = self._read.partition(b"\0")
        read: dict[str, Any] = json.loads(message)
        return read


@contextmanager
def browser(directory: Path) -> Iterator[Browser]:
    """A browser with an empty profile in this directory."""
    (command_out, command_in), (answer_out, answer_in) = os.pipe(), os.pipe()
    script = f'exec "$0" "$@" 3<&{command_out} 4>&{answer_in}'
    with (directory / "browser.log").open("wb") as log:
        process = subprocess.Popen(
            ["bash", "-c", script, PROGRAM, *FLAGS, f"--user-data-dir={directory / 'profile'}"],
            pass_fds=(command_out, answer_in),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    os.close(command_out)
    os.close(answer_in)
    with os.fdopen(command_in, "wb", 0) as commands, os.fdopen(answer_out, "rb", 0) as answers:
        try:
            yield Browser(commands, answers)
        finally:
            with suppress(ProcessLookupError):  # once all that it started have ended
                while True:
                    os.killpg(process.pid, signal.SIGTERM)
                    process.poll()
                    time.sleep(0.05)
