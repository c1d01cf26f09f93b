"""The pages in headless Chromium: filters, comparison and live view; the console stays empty."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from staticfire.harness.serve.security import LOGIN
from tests.harness.serve.conftest import NASTY_NAME, Server, start, stop
from tests.support.browser import PHONE_PX, Browser, Page

pytestmark = [pytest.mark.needs_chromium, pytest.mark.real, pytest.mark.slow]

A4_PX = 794
ONE, OTHER = "20260101-000000-queue-1", "20260101-000001-queue-1"
NASTY = quote(NASTY_NAME)
OPS = "[...document.querySelectorAll('.facts div')].find(one => /^Ops/.test(one.innerText)).innerText.slice(3)"
# Every page of ours, with the name of its screenshot and a word that it must show.
PAGES = {
    "/?verdict=invalid": ("runs", "lost"),
    "/run/lost": ("run", "delivered to no consumer"),
    "/run/lost/live": ("throughput", "99th percentile"),
    "/run/going-on?renew=no": ("live", "Oldest unseen waits"),
    f"/compare?run={ONE}&run={OTHER}": ("compare", "The first 40 ops are the same"),
    "/trends?workload=queue": ("trends", "Percent of runs that are invalid"),
    "/hunts": ("hunts", "hunt.jsonl"),
    "/hunt/hunt.jsonl": ("hunt", "loss (lost)"),
    "/bugs?q=flush": ("bugs", "failed-flush-counts"),
    "/bug/ack-before-fsync": ("bug", "Runs with it"),
    "/conformance": ("conformance-reports", "does not conform"),
    "/conformance/report": ("conformance-report", "failures first"),
    "/contract?q=transaction": ("contract", "RMQ-TXN-09"),
    f"/run/{NASTY}": ("hostile-run", "<script>alert(1)"),
    f"/run/{NASTY}%20goes%20on?renew=no": ("hostile-live", "<script>alert(1)"),
    f"/compare?run=lost&run={NASTY}": ("hostile-compare", "<script>alert(1)"),
    "/run/damaged-odd": ("damaged-run", "damaged-odd"),
    "/run/none": ("not-found", "There is no such page"),
}


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    page = chromium.page()
    page.past_its_policy()
    page.size(1200, 900)
    yield page
    page.close()


def address(server: Server, path: str) -> str:
    return f"http://127.0.0.1:{server.port}{path}"


def assert_silent(page: Page, path: str) -> None:
    """A page that is not there is said by Chromium, too."""
    loud = [one for one in page.complaints if "status of 404" not in one]
    assert loud == [], path
    assert page.evaluate("document.scripts.length") == 0


def test_every_page_is_silent_and_axe_finds_nothing_serious(page: Page, server: Server) -> None:
    for path, (name, shown) in PAGES.items():
        page.open(address(server, path))
        assert shown in page.text("main"), path
        assert_silent(page, path)
        assert page.overflow_px() == 0, path
        page.keep_screenshot(f"serve-{name}")
        page.open_details()
        for scheme in ("light", "dark"):
            page.media(prefers_color_scheme=scheme)
            assert page.serious_findings() == [], (path, scheme)
        page.media()


def test_every_page_fits_a_phone(page: Page, server: Server) -> None:
    page.size(PHONE_PX, 844, is_phone=True)
    for path, (name, shown) in PAGES.items():
        page.open(address(server, path))
        page.open_details()
        assert page.overflow_px() == 0, path
        assert shown in page.text("main"), path
        if name in ("runs", "run", "live"):
            page.keep_screenshot(f"serve-{name}-phone")


def test_on_paper_the_verdict_is_there_and_the_tools_are_not(page: Page, server: Server) -> None:
    page.size(A4_PX, 1100)
    page.media("print")
    for path in ("/run/lost", "/?verdict=invalid", "/conformance/report"):
        page.open(address(server, path))
        shown = "[...document.querySelectorAll('{}')].filter(one => one.offsetParent).length"
        assert page.evaluate(shown.format(".verdict")) >= 1, path
        assert page.evaluate(shown.format("nav, form.filter, button, .actions")) == 0, path
    assert page.pdf().startswith(b"%PDF-")


def test_without_scripts_the_verdict_can_be_read(chromium: Browser, server: Server) -> None:
    page = chromium.page()
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    page.open(address(server, "/run/lost"))
    root = page.call("DOM.getDocument", depth=0)["root"]["nodeId"]
    node = page.call("DOM.querySelector", nodeId=root, selector=".lead .verdict")["nodeId"]
    assert "invalid" in page.call("DOM.getOuterHTML", nodeId=node)["outerHTML"]
    page.close()


def test_runs_are_filtered_by_hand(page: Page, server: Server) -> None:
    page.open(address(server, "/"))
    every = page.evaluate("document.querySelectorAll('tbody tr').length")
    page.choose("[name=verdict]", "invalid")
    page.choose("[name=q]", "lost queue")
    page.click_through("form.filter button")
    assert page.evaluate("document.querySelectorAll('tbody tr').length") == 1 < every
    assert page.text("tbody th") == "lost"
    page.click_through("tbody th a")
    assert page.text("h1") == "lost"
    assert "✗ invalid" in page.text(".lead")
    page.click("details summary")
    assert page.complaints == []


def test_two_runs_are_chosen_and_compared_by_hand(page: Page, server: Server) -> None:
    page.open(address(server, "/?q=queue-1&sort=name&order=up"))
    for name in (ONE, OTHER):
        page.click(f"input[value='{name}']")
    page.click_through(".above button")
    assert page.text("h1") == "Two runs"
    assert "The first 40 ops are the same" in page.text("main")
    assert page.evaluate("document.querySelectorAll('tr.left, tr.right').length") == 8
    assert page.complaints == []


def test_a_run_that_goes_on_is_watched(page: Page, server: Server, one_run: Path) -> None:
    """The page renews itself: what the run writes meanwhile is shown without a click. Then the reader stops it."""
    lines = (one_run / "history.jsonl").read_bytes()
    run = server.folder / "watched"
    run.mkdir()
    (run / "campaign.toml").write_bytes((one_run / "campaign.toml").read_bytes())
    (run / "history.jsonl").write_bytes(lines[:40_000])
    page.open(address(server, "/run/watched"))
    ops = f"Number({OPS})"
    assert page.evaluate(ops) == lines[:40_000].count(b"\n")
    for title in ("Messages a second", "Messages that no consumer has seen", "Lag: from"):
        assert title in page.text("main")
    assert page.evaluate("document.querySelectorAll('svg.chart polyline').length") >= 5
    (run / "history.jsonl").write_bytes(lines)
    page.wait_for_renewal()
    assert page.evaluate(ops) == lines.count(b"\n")
    page.click_through("a[href='?renew=no']")
    assert "This page stands still" in page.text("main")
    assert page.complaints == []


def test_a_page_of_a_report_is_followed_and_filtered(page: Page, server: Server) -> None:
    page.open(address(server, "/conformance"))
    page.click_through("tbody th a")
    page.choose("[name=outcome]", "quirk")
    page.click_through("form.filter button")
    assert page.evaluate("document.querySelectorAll('tbody tr').length") == 1
    page.open(address(server, "/matrix/report"))  # its own script runs in its sandbox
    page.choose("[name=outcome]", "failed")
    assert "1 of" in page.text("#shown")
    assert page.complaints == []


def test_the_report_of_a_run_is_silent_in_its_sandbox(page: Page, server: Server) -> None:
    page.open(address(server, f"/run/{ONE}"))
    page.click_through(".actions a")  # there is none in the folder: it is made now
    assert "✔ VALID" in page.text(".verdict")
    page.click("#witness-0 .next")
    assert page.text("#readout")
    assert page.complaints == []


def test_a_token_is_asked_for_and_typed(page: Page, server: Server) -> None:
    token = "a token of the test that is long enough"
    guarded = start(server.folder, STATICFIRE_TOKEN=token)
    try:
        page.open(address(guarded, "/run/lost"))
        assert page.text("h1") == "A token is needed"
        assert page.serious_findings() == []
        page.choose("[name=token]", "wrong")
        page.click_through("form button")
        assert "That is not the token" in page.text("main")
        page.open(address(guarded, LOGIN))
        page.choose("[name=token]", token)
        page.click_through("form button")
        assert page.text("h1") == "Runs"
    finally:
        assert stop(guarded) == (0, "")


def test_a_report_runs_its_scripts_and_can_ask_for_nothing(
    chromium: Browser, server: Server
) -> None:
    report = server.folder / "lost" / "report.html"
    before = report.read_text()
    probe = (
        "<p id=said></p><script>window.asked = fetch('/run/lost').then(() => 'reached', () => 'refused');"
        "document.title = 'ran'</script>"
    )
    report.write_text(probe)
    page = chromium.page()
    try:
        page.open(address(server, "/run/lost/report"))
        assert page.evaluate("document.title") == "ran"
        assert page.evaluate("window.asked") == "refused"
        assert page.evaluate("self.origin") == "null"
    finally:
        report.write_text(before)
        page.close()
