"""The conformance page in headless Chromium: what is on top, the filter, wire logs, a phone, paper, no scripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from staticfire.harness.conformance.clause import contract
from staticfire.harness.conformance.outputs.about import About
from staticfire.harness.conformance.outputs.html_matrix import html_matrix
from staticfire.harness.conformance.result import CaseResult, Outcome
from staticfire.harness.conformance.sites.suite import SuiteResult
from tests.support.browser import PHONE_PX, Browser, Page

pytestmark = [pytest.mark.needs_chromium, pytest.mark.real, pytest.mark.slow]

HOSTILE = "<img src=x onerror=\"document.title='pwned'\"></script><script>document.title='pwned'</script>{{7*7}}"
ABOUT = About(
    profile="broker-core",
    command="staticfire conform --profile broker-core",
    written="2026-11-20 10:15 UTC",
    versions={"staticfire": "0.1.0", "python": "3.11.7"},
)
SHOWN = (
    "[...document.querySelectorAll('tbody tr')].filter(one => one.offsetParent).map(one => one.id)"
)


def suite(target: str, failing: int, text: str = "answered 17") -> SuiteResult:
    """The whole contract: every `failing`-th clause fails, some are quirks or did not run."""
    log = tuple(f"-> request {number} {text} " + "0123456789abcdef " * 20 for number in range(60))
    results = []
    for number, clause in enumerate(contract().values()):
        outcome = Outcome.FAILED if number % failing == failing - 1 else Outcome.PASSED
        outcome = {11: Outcome.QUIRK, 12: Outcome.NOT_RUN, 13: Outcome.EXPECTED}.get(
            number, outcome
        )
        is_passed = outcome is Outcome.PASSED
        results.append(
            CaseResult(
                clause=clause,
                outcome=outcome,
                reason="" if is_passed else f"expected 0, {text}",
                wire_log=() if is_passed else log,
            )
        )
    return SuiteResult(target=target, results=tuple(results), floor=10)


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("matrix") / "matrix.html"
    reports = [(suite("RocketMQ 4.9.8 at 10.0.0.1:9876", 40), ABOUT), (suite("ours", 10**6), ABOUT)]
    path.write_text(html_matrix(reports), encoding="utf-8")
    return path


@pytest.fixture
def page(chromium: Browser, matrix: Path) -> Iterator[Page]:
    page = chromium.page()
    page.size(1200, 900)
    page.past_its_policy()
    page.open(matrix.as_uri())
    yield page
    assert page.complaints == []
    page.close()


def test_verdict_profile_versions_and_date_are_on_top(page: Page) -> None:
    first = page.text(".verdict")
    assert first.startswith("✖ DOES NOT CONFORM RocketMQ 4.9.8 at 10.0.0.1:9876")
    for text in ("broker-core", "2026-11-20 10:15 UTC", "staticfire 0.1.0, python 3.11.7"):
        assert text in first
    assert "failed" in first
    assert page.evaluate("document.querySelectorAll('.verdict')[1].innerText").startswith(
        "✔ CONFORMS ours"
    )
    assert page.text("h2").startswith("Failed")
    page.keep_screenshot("conformance-1200")


def test_the_filter_narrows_by_outcome_area_and_words(page: Page) -> None:
    every = page.evaluate(SHOWN)
    assert len(every) == len(contract())
    page.choose("[name=outcome]", "failed")
    failed = page.evaluate(SHOWN)
    assert failed == every[: len(failed)]  # failures come first
    assert page.text("#shown") == f"{len(failed)} of {len(every)} cases"
    assert 0 < len(failed) < len(every)
    area = page.evaluate("document.querySelector('tbody tr').dataset.area")
    page.choose("[name=area]", area)
    assert set(page.evaluate(SHOWN)) == {one for one in failed if contract()[one].area == area}
    page.choose("[name=outcome]", "")
    page.choose("[name=area]", "")
    page.choose("[name=text]", every[-1].lower())
    assert page.evaluate(SHOWN) == [every[-1]]
    assert (
        page.evaluate("[...document.querySelectorAll('h2')].filter(one => one.offsetParent).length")
        == 1
    )
    page.keep_screenshot("conformance-filtered", is_whole=False)


def test_a_wire_log_opens_by_a_click_and_scrolls_inside_its_box(page: Page) -> None:
    page.click("tr td.failed summary")
    tall, box = page.evaluate(
        "(() => { const log = document.querySelector('tr td.failed pre'); return ["
        "[log.scrollHeight, log.clientHeight], [log.scrollWidth, log.clientWidth]]; })()"
    )
    assert tall[0] > tall[1] > 100
    assert box[0] > box[1]
    assert page.overflow_px() == 0


def test_it_is_good_on_a_phone(page: Page) -> None:
    page.size(PHONE_PX, 844, is_phone=True)
    page.keep_screenshot("conformance-phone", is_whole=False)
    page.open_details()
    assert page.overflow_px() == 0
    assert page.evaluate("document.querySelector('.verdict').getBoundingClientRect().top") < 100
    assert page.evaluate("document.querySelector('td.clause').clientWidth") > 300


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(page: Page, scheme: str) -> None:
    page.media(prefers_color_scheme=scheme)
    page.choose("[name=text]", "1")  # a part of the clauses, or axe takes a minute
    page.open_details()
    assert page.serious_findings() == []


def test_on_paper_and_without_scripts_the_verdict_can_be_read(
    chromium: Browser, matrix: Path
) -> None:
    page = chromium.page()
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    page.open(matrix.as_uri())
    root = page.call("DOM.getDocument", depth=0)["root"]["nodeId"]
    node = page.call("DOM.querySelector", nodeId=root, selector=".verdict")["nodeId"]
    assert "DOES NOT CONFORM" in page.call("DOM.getOuterHTML", nodeId=node)["outerHTML"]
    tools = page.call("DOM.querySelector", nodeId=root, selector="#filter[hidden]")["nodeId"]
    assert tools  # no filter that does nothing
    assert page.pdf().startswith(b"%PDF-")
    page.close()


def test_hostile_texts_are_shown_and_not_obeyed(chromium: Browser, tmp_path: Path) -> None:
    hostile = suite(HOSTILE, 3, HOSTILE + "\x1b[31m\u202e")
    about = About(profile=HOSTILE, command=HOSTILE, written=HOSTILE, versions={HOSTILE: HOSTILE})
    path = tmp_path / "hostile.html"
    path.write_text(html_matrix([(hostile, about)]), encoding="utf-8")
    page = chromium.page()
    page.open(path.as_uri())
    page.open_details()
    assert page.complaints == []
    assert page.evaluate("document.title").startswith("does not conform")
    assert page.evaluate("document.querySelectorAll('img').length") == 0
    assert page.evaluate("document.scripts.length") == 1
    assert HOSTILE in page.text(".verdict")
    assert "\x1b" not in page.evaluate("document.body.innerText")
    page.close()
