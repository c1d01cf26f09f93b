"""A headless Chromium for tests of pages, driven over two pipes: no port, no driver, no library.

The messages are those of the DevTools protocol, each ended by a NUL byte.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
READ_BYTES = 1 << 16
TO_BROWSER, FROM_BROWSER = 3, 4  # file descriptors that Chromium expects


class BrowserError(Exception):
    """The browser refused a command, or a script on the page failed."""


@dataclass(slots=True)
class Page:
    """One tab. `complaints` are errors and warnings on its console, and scripts that failed."""

    _browser: Browser
    _session: str
    complaints: list[str] = field(default_factory=list)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, parameters, self._session)

    def size(self, width: int, height: int, *, is_phone: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=is_phone,
        )

    def open(self, address: str) -> None:
        """Go there, and wait until everything is loaded. Raises BrowserError."""
        self._browser.loaded.discard(self._session)
        found = self.call("Page.navigate", url=address)
        if "errorText" in found:
            raise BrowserError(found["errorText"])
        self._browser.wait_for_load(self._session)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, or what its promise comes to. Raises BrowserError."""
        found = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise BrowserError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def media(self, medium: str = "", **features: str) -> None:
        """Show the page as on paper (`print`), or with other preferences, such as prefers_color_scheme."""
        wanted = [
            {"name": name.replace("_", "-"), "value": value} for name, value in features.items()
        ]
        self.call("Emulation.setEmulatedMedia", media=medium, features=wanted)

    def screenshot(self, path: Path, *, is_whole: bool = True) -> None:
        found = self.call("Page.captureScreenshot", captureBeyondViewport=is_whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF")["data"])

    def overflow_px(self) -> int:
        """By how much the page is wider than its window."""
        found: int = self.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return found


class Browser:
    """The process, and the commands that it carries out."""

    def __init__(
        self, process: subprocess.Popen[bytes], to_browser: int, from_browser: int
    ) -> None:
        self.process = process
        self.loaded: set[str] = set()
        self._to, self._from = to_browser, from_browser
        self._number = 0
        self._unread = b""
        self._pages: dict[str, Page] = {}

    def page(self) -> Page:
        """A new tab."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})
        page = Page(self, session["sessionId"])
        self._pages[session["sessionId"]] = page
        for domain in ("Page", "Runtime", "Log"):
            page.call(f"{domain}.enable")
        return page

    def call(
        self, method: str, parameters: dict[str, Any], session: str | None = None
    ) -> dict[str, Any]:
        """Raises BrowserError."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        _write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self._number:
                if "error" in found:
                    raise BrowserError(f"{method}: {found['error']}")
                result: dict[str, Any] = found["result"]
                return result

    def wait_for_load(self, session: str) -> None:
        while session not in self.loaded:
            self._next()

    def _next(self) -> dict[str, Any]:
        """The next message; events are noted."""
        while b"\0" not in self._unread:
            data = os.read(self._from, READ_BYTES)
            if not data:
                raise BrowserError("the browser has ended")
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        session, parameters = message.get("sessionId", ""), message.get("params", {})
        page = self._pages.get(session)
        match message.get("method"):
            case "Page.loadEventFired":
                self.loaded.add(session)
            case "Runtime.exceptionThrown" if page is not None:
                page.complaints.append(str(parameters["exceptionDetails"]))
            case "Log.entryAdded" if page is not None:
                page.complaints.append(str(parameters["entry"]))
            case "Runtime.consoleAPICalled" if page is not None:
                if parameters["type"] in ("error", "warning", "assert"):
                    page.complaints.append(str(parameters["args"]))


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser of its own, with its files in `profile`; ended with the block."""
    their_in, our_out = os.pipe()
    our_in, their_out = os.pipe()
    command = ["chromium", *FLAGS, f"--user-data-dir={profile}"]
    process = _start(command, their_in, their_out)
    os.close(their_in)
    os.close(their_out)
    try:
        yield Browser(process, our_out, our_in)
    finally:
        process.kill()
        process.wait()
        os.close(our_out)
        os.close(our_in)


def _start(command: list[str], their_in: int, their_out: int) -> subprocess.Popen[bytes]:
    """The shell puts the two pipes where Chromium looks for them."""
    script = f'exec "$@" {TO_BROWSER}<&{their_in} {FROM_BROWSER}>&{their_out}'
    return subprocess.Popen(
        ["bash", "-c", script, "bash", *command],
        pass_fds=(their_in, their_out),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
