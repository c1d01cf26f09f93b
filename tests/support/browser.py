"""A headless Chromium for tests of pages, driven over two pipes: no port, no driver, no library.

The messages are those of the DevTools protocol, each ended by a NUL byte.
Screenshots are kept in `$STATICFIRE_REPORTS/screenshots` (default: reports/screenshots), for people to look at.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
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
ROOT = Path(__file__).parents[2]
SCREENSHOTS = Path(os.environ.get("STATICFIRE_REPORTS", ROOT / "reports")) / "screenshots"
PHONE_PX = 390
SERIOUS = """axe.run().then(found => found.violations.filter(one => ["serious", "critical"].includes(one.impact))
  .map(one => [one.id, one.nodes.slice(0, 3).map(node => node.html.slice(0, 200))]))"""
CENTRE = """(() => { const one = document.querySelector(%s); one.scrollIntoView({block: "center"});
  const box = one.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"""
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

    def click(self, selector: str) -> None:
        """With the mouse, in the middle of the first element that fits. Raises BrowserError if there is none."""
        x, y = self.evaluate(CENTRE % json.dumps(selector))
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def click_through(self, selector: str) -> None:
        """Click on what leads to another page, and wait until that is loaded."""
        self._browser.loaded.discard(self._session)
        self.click(selector)
        self._browser.wait_for_load(self._session)

    def wait_for_renewal(self) -> None:
        """Wait until the page is loaded again by itself."""
        self._browser.loaded.discard(self._session)
        self._browser.wait_for_load(self._session)

    def choose(self, selector: str, value: str) -> None:
        """Give a field or a list of choices a value, as a person would: with its events."""
        self.evaluate(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)}); one.value = {json.dumps(value)};"
            "for (const kind of ['input', 'change']) one.dispatchEvent(new Event(kind, {bubbles: true})); })()"
        )

    def text(self, selector: str) -> str:
        """What a reader sees of the first element that fits."""
        found: str = self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")
        return found

    def open_details(self) -> None:
        self.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")

    def serious_findings(self) -> list[Any]:
        """What axe-core finds serious or critical. The page must have been opened after `past_its_policy`."""
        script = resources.files("axe_core_python") / "axe.min.js"
        self.evaluate(script.read_text(encoding="utf-8"))
        found: list[Any] = self.evaluate(SERIOUS)
        return found

    def past_its_policy(self) -> None:
        """Let tests put scripts into pages that allow none."""
        self.call("Page.setBypassCSP", enabled=True)

    def close(self) -> None:
        self._browser.close_page(self._session)

    def media(self, medium: str = "", **features: str) -> None:
        """Show the page as on paper (`print`), or with other preferences, such as prefers_color_scheme."""
        wanted = [
            {"name": name.replace("_", "-"), "value": value} for name, value in features.items()
        ]
        self.call("Emulation.setEmulatedMedia", media=medium, features=wanted)

    def keep_screenshot(self, name: str, *, is_whole: bool = True) -> None:
        """Keep a picture of the page as SCREENSHOTS/name.png."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=is_whole)
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        (SCREENSHOTS / f"{name}.png").write_bytes(base64.b64decode(found["data"]))

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

    def close_page(self, session: str) -> None:
        self.call("Page.close", {}, session)
        del self._pages[session]

    def call(
        self, method: str, parameters: dict[str, Any], session: str | None = None
    ) -> dict[str, Any]:
        """Raises BrowserError."""
        number = self._send(method, parameters, session)
        while True:
            found = self._next()
            if found.get("id") == number:
                if "error" in found:
                    raise BrowserError(f"{method}: {found['error']}")
                result: dict[str, Any] = found["result"]
                return result

    def _send(self, method: str, parameters: dict[str, Any], session: str | None) -> int:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        _write(self._to, json.dumps(message).encode() + b"\0")
        return self._number

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
            case "Page.javascriptDialogOpening" if page is not None:
                page.complaints.append(f"a dialog: {parameters['message']}")
                self._send("Page.handleJavaScriptDialog", {"accept": False}, session)
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
