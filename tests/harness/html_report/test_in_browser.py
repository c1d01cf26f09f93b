"""The report in a headless Chromium: panels have content, clicks work, nothing is said on the console.

Screenshots are kept in `$STATICFIRE_REPORTS/report-screenshots` (default: reports/), for people to look at.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

from staticfire.harness.html_report.page import render
from staticfire.harness.html_report.panels import panels_of
from staticfire.harness.html_report.recorded_run import read_recorded
from staticfire.harness.html_report.report import html_report, write_report
from tests.harness.html_report.recorded import CLEAN, fault_record, recorded
from tests.support.browser import Browser, Page, browser
from tests.support.history_language import history

pytestmark = [pytest.mark.needs_chromium, pytest.mark.real, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
APACHE_RUNS = ROOT / "tests" / "data" / "apache-runs"
RECORDED = sorted(path.name for path in APACHE_RUNS.iterdir() if path.is_dir())
TIER_S = ("ack-before-replica", "failed-flush-counts", "reads-before-flush")
SCREENSHOTS = Path(os.environ.get("STATICFIRE_REPORTS", ROOT / "reports")) / "report-screenshots"
OPENS_S = 2.0  # of the browser's own clock, with room for a machine that does other things
SIZE_MAX = 3 << 20
MILLION = ("--ops", "1000000", "--queues", "24")
HEADINGS = (
    "Promise ledger",
    "Timeline",
    "Latency, rates, unseen messages and lag",
    "Witnesses: the life of a message",
    "Blast radius",
    "Faults",
    "Coverage",
    "Confidence",
    "Go on",
)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as process:
        yield process


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run that lost a message."""
    return made_by_run(tmp_path_factory, "--defect", "ack-before-fsync", "--seed", "1")


def made_by_run(factory: pytest.TempPathFactory, *options: str) -> Path:
    runs = factory.mktemp("runs")
    command = [sys.executable, "-m", "staticfire", "run", "--runs", str(runs), *options]
    subprocess.run(command, capture_output=True, timeout=300, check=False)
    [folder] = runs.iterdir()
    return folder / "report.html"


def made_of(folder: Path, target: Path) -> Path:
    write_report(target, html_report(read_recorded(folder, lambda _line: None)))
    return target


def opened(chromium: Browser, report: Path, width: int = 1200, **options: bool) -> Page:
    """The page, which was silent."""
    page = chromium.page()
    page.size(width, 900, **options)
    page.open(report.as_uri())
    assert page.complaints == []
    return page


def check_panels(page: Page) -> None:
    """Each panel is there, and says more than its heading."""
    sections = page.evaluate(
        "[...document.querySelectorAll('section')].map(s => [s.querySelector('h2')?.textContent, s.innerText.length])"
    )
    found = {heading: length for heading, length in sections if heading}
    assert set(HEADINGS) <= set(found)
    assert min(found[heading] - len(heading) for heading in HEADINGS) > 20


def test_the_report_of_a_lost_message(chromium: Browser, lost: Path) -> None:
    page = opened(chromium, lost)
    check_panels(page)
    assert page.evaluate("document.querySelector('.verdict').innerText").startswith("✖ INVALID")
    assert page.evaluate("document.querySelectorAll('.over-time svg').length") == 6
    assert page.evaluate("document.querySelectorAll('.copies svg').length") >= 1
    assert page.evaluate("document.querySelectorAll('.order svg').length") >= 1


def test_the_life_of_a_message_can_be_followed_by_clicks(chromium: Browser, lost: Path) -> None:
    page = opened(chromium, lost)
    page.evaluate("document.querySelector('#witness-0 .next').click()")
    first = page.evaluate("document.querySelector('#witness-0 tr.picked').innerText")
    assert "sends it" in first
    assert "sends acknowledged" in page.evaluate("document.getElementById('readout').textContent")
    for _ in range(30):
        page.evaluate("document.querySelector('#witness-0 .next').click()")
    last = page.evaluate("document.querySelector('#witness-0 tr.picked').innerText")
    assert "has had its time to read what is left" in last
    page.evaluate("document.querySelector('#witness-0 .previous').click()")
    assert page.evaluate("document.querySelectorAll('tr.picked').length") == 1
    page.evaluate(
        "[...document.querySelectorAll('#witness-0 tr')].find(r => r.innerText.includes('is gone')).click()"
    )
    assert "is gone" in page.evaluate("document.querySelector('tr.picked').innerText")
    assert page.complaints == []


def test_a_link_opens_its_witness(chromium: Browser, lost: Path) -> None:
    page = opened(chromium, lost)
    assert page.evaluate("document.getElementById('witness-2').open") is False
    page.evaluate("document.querySelector('a[href=\"#witness-2\"]').click()")
    page.evaluate("new Promise(done => setTimeout(done, 50))")
    assert page.evaluate("document.getElementById('witness-2').open") is True


def test_the_findings_can_be_filtered(chromium: Browser, lost: Path) -> None:
    page = opened(chromium, lost)
    shown = (
        "[...document.querySelectorAll('#findings-table tbody tr')].filter(r => !r.hidden).length"
    )
    everything = page.evaluate(shown)
    page.evaluate(
        "{const f = document.getElementById('filter'); f.value = 'lost'; f.dispatchEvent(new Event('change'))}"
    )
    assert 0 < page.evaluate(shown) < everything


def test_the_issue_can_be_copied(chromium: Browser, lost: Path) -> None:
    page = opened(chromium, lost)
    text = page.evaluate("document.getElementById('issue').textContent")
    assert "### Steps to Reproduce" in text
    assert "staticfire explain" in text
    page.evaluate("document.querySelector('[data-copies=issue]').click()")
    page.evaluate("new Promise(done => setTimeout(done, 200))")
    words = page.evaluate("document.querySelector('[data-copies=issue]').textContent")
    assert words in ("Copied", "Selected: copy it with the keyboard")


@pytest.mark.parametrize("width", [390, 1200])
def test_the_page_is_no_wider_than_its_window(chromium: Browser, lost: Path, width: int) -> None:
    page = opened(chromium, lost, width, is_phone=width < 600)
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert page.overflow_px() == 0
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(SCREENSHOTS / f"lost-{width}.png")


def test_the_verdict_can_be_read_without_scripts(chromium: Browser, lost: Path) -> None:
    page = chromium.page()
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    page.open(lost.as_uri())
    root = page.call("DOM.getDocument", depth=0)["root"]["nodeId"]
    node = page.call("DOM.querySelector", nodeId=root, selector=".verdict")["nodeId"]
    assert "INVALID" in page.call("DOM.getOuterHTML", nodeId=node)["outerHTML"]
    hidden = page.call("DOM.querySelectorAll", nodeId=root, selector=".scripted[hidden]")["nodeIds"]
    every = page.call("DOM.querySelectorAll", nodeId=root, selector=".scripted")["nodeIds"]
    assert len(hidden) == len(every) > 0  # no button that does nothing


def test_on_paper_nothing_is_hidden_in_a_box(chromium: Browser, lost: Path) -> None:
    page = opened(chromium, lost)
    page.media("print")
    assert page.evaluate("getComputedStyle(document.querySelector('.box')).overflowX") == "visible"
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert page.pdf().startswith(b"%PDF-")


def test_dark_pages_have_other_colours(chromium: Browser, lost: Path) -> None:
    page = opened(chromium, lost)
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.media(prefers_color_scheme="dark")
    assert page.evaluate(colour) != light
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(SCREENSHOTS / "lost-dark.png")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(chromium: Browser, lost: Path, scheme: str) -> None:
    page = chromium.page()
    page.call("Page.setBypassCSP", enabled=True)
    page.size(1200, 900)
    page.media(prefers_color_scheme=scheme)
    page.open(lost.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    page.evaluate((resources.files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate(
        "axe.run().then(r => r.violations.filter(v => ['serious', 'critical'].includes(v.impact))"
        ".map(v => [v.id, v.nodes.slice(0, 3).map(n => n.html.slice(0, 200))]))"
    )
    assert found == []


@pytest.mark.parametrize("name", RECORDED)
def test_the_recorded_runs_of_apache(chromium: Browser, name: str, tmp_path: Path) -> None:
    report = made_of(APACHE_RUNS / name, tmp_path / f"{name}.html")
    page = opened(chromium, report)
    check_panels(page)
    assert page.overflow_px() == 0
    assert report.stat().st_size < SIZE_MAX


@pytest.mark.parametrize("name", TIER_S)
def test_planted_bugs(chromium: Browser, name: str, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    command = [sys.executable, "-m", "staticfire", "reproduce", name, "--runs", str(runs)]
    subprocess.run([*command, "--budget", "240"], capture_output=True, timeout=600, check=True)
    [folder] = runs.iterdir()
    page = opened(chromium, made_of(folder, tmp_path / "report.html"))
    check_panels(page)
    assert "INVALID" in page.evaluate("document.querySelector('.verdict').innerText")
    assert page.evaluate("document.querySelectorAll('#witness-0 tr[data-time]').length") >= 3
    page.size(390, 844, is_phone=True)
    assert page.overflow_px() == 0


def test_a_clean_run(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    page = opened(chromium, made_by_run(tmp_path_factory, "--campaign", "default", "--seed", "1"))
    check_panels(page)
    assert page.evaluate("document.querySelector('.verdict').innerText").startswith("✔ VALID")
    assert page.evaluate("document.querySelectorAll('#witness-0 tr[data-time]').length") >= 3


def test_a_million_ops(chromium: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "million"
    command = [sys.executable, "-m", "staticfire", "synthesize", str(folder), *MILLION]
    subprocess.run(command, capture_output=True, timeout=600, check=True)
    report = made_of(folder, tmp_path / "million.html")
    assert report.stat().st_size < SIZE_MAX
    page = opened(chromium, report)
    check_panels(page)
    loaded_s = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd / 1000")
    assert loaded_s < OPENS_S


def test_hostile_texts_are_shown_and_not_obeyed(chromium: Browser, tmp_path: Path) -> None:
    nasty = "<img src=x onerror=\"document.title='pwned'\"></script><script>document.title='pwned'</script>"
    ops = [
        replace(one, value={**one.value, "topic": nasty}) if "topic" in one.value else one
        for one in history("0 ok send a", "0 ok send b", "1 ok consume b", "9 ok drain")
    ]
    run = recorded(
        ops=ops,
        faults=[fault_record(kind=nasty, targets=[nasty], evidence={"bitten": True, nasty: nasty})],
        document={"versions": {nasty: nasty}, "digest": nasty, "diagnoses": [nasty]},
    )
    report = tmp_path / "hostile.html"
    write_report(report, render(panels_of(run)))
    page = opened(chromium, report)
    assert "pwned" not in page.evaluate("document.title")
    assert page.evaluate("document.querySelectorAll('img').length") == 0
    assert page.evaluate("document.scripts.length") == 2
    assert nasty in page.evaluate("document.body.innerText")


def test_a_history_with_hardly_anything_in_it(chromium: Browser, tmp_path: Path) -> None:
    for number, lines in enumerate(((), ("0 fail send a",), CLEAN)):
        report = tmp_path / f"{number}.html"
        write_report(report, render(panels_of(recorded(lines))))
        check_panels(opened(chromium, report))
