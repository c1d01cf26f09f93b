"""The page as text: hostile values are escaped, it needs no network, and it stays small."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from staticfire.checkers.guarantees.verdict import WITNESSES_MAX
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.html_report import page as page_module
from staticfire.harness.html_report import panels as panels_module
from staticfire.harness.html_report.page import render
from staticfire.harness.html_report.panels import FINDINGS_MAX, panels_of
from staticfire.harness.html_report.recorded_run import RecordedRun, Shrunk
from staticfire.harness.html_report.report import write_report
from staticfire.harness.html_report.witnesses import WITNESSES_MAX as LIVES_MAX
from tests.harness.html_report.recorded import CLEAN, LOSS, fault_record, recorded
from tests.support.history_language import history

NASTY = (
    '<script>alert(1)</script><img src=x onerror="alert(2)">=cmd()\x1b[31m\x9b2J\u202e\x00{{7*7}}'
)


def page_of(run: RecordedRun) -> str:
    return render(panels_of(run))


class Tags(HTMLParser):
    """Which elements a page has, and whether each that was opened is closed."""

    VOID = ("meta", "link", "br", "hr", "img", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        for name, value in attrs:
            assert not name.startswith("on")
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href"):
                self.addresses.append(value or "")
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def test_a_lost_message_is_on_top() -> None:
    text = page_of(recorded(LOSS))
    assert "<strong>✖ INVALID</strong>" in text
    assert "1 lost of 2 acknowledged" in text
    assert 'href="#witness-0"' in text


def test_a_clean_run_shows_the_message_that_waited_longest() -> None:
    text = page_of(recorded(CLEAN))
    assert "<strong>INVALID" not in text
    assert "No promise was broken." in text
    assert "this message waited longest" in text


def test_nothing_is_loaded_and_no_foreign_script_is_obeyed() -> None:
    text = page_of(recorded(LOSS))
    tags = Tags(text)
    assert all(address.startswith("#") for address in tags.addresses)
    assert {"img", "link", "iframe", "object"}.isdisjoint(tags.names)
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none'")
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
    assert [f"script-src 'sha256-{one}'" in policy for one in hashes] == [True]
    [style] = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() in policy


def test_ids_are_unique() -> None:
    ids = Tags(page_of(recorded(LOSS, faults=[fault_record()]))).ids
    assert len(ids) == len(set(ids))


def test_hostile_texts_are_escaped() -> None:
    ops = [
        replace(op, value={**op.value, "topic": NASTY}) if "topic" in op.value else op
        for op in history(*LOSS)
    ]
    run = recorded(
        ops=ops,
        faults=[fault_record(kind=NASTY, targets=[NASTY], evidence={"bitten": True, NASTY: NASTY})],
        document={"versions": {NASTY: NASTY}, "digest": NASTY, "diagnoses": [NASTY]},
    )
    text = page_of(replace(run, campaign_text=NASTY, explanation={NASTY: [NASTY]}))
    assert not set(text) & {"\x1b", "\x9b", "\u202e", "\x00"}
    tags = Tags(text)
    assert tags.names.count("script") == 2
    assert "img" not in tags.names


def test_a_page_grows_with_findings_and_not_with_ops() -> None:
    few = [f"0 ok send k{n}" for n in range(20)]
    many = [f"0 ok send k{n}" for n in range(2000)]
    small = len(page_of(recorded([*few, "9 ok drain"])))
    large = len(page_of(recorded([*many, "9 ok drain"])))
    assert large < 3 * small < 3 << 20


def test_bounds_are_stated() -> None:
    panels = panels_of(recorded([f"0 ok send k{n}" for n in range(50)] + ["9 ok drain"]))
    assert len(panels.lives) <= LIVES_MAX
    assert len(panels.findings) <= FINDINGS_MAX
    assert f"keeps the first {WITNESSES_MAX} findings" in render(panels)


def test_what_is_left_out_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panels_module, "FAULTS_MAX", 1)
    monkeypatch.setattr(panels_module, "FINDINGS_MAX", 1)
    faults = [fault_record(id=number) for number in range(3)]
    lost = recorded(["0 ok send a", "0 ok send b", "0 ok send c", "1 ok consume c", "9 ok drain"])
    text = page_of(replace(lost, faults=faults, campaign=draw_campaign(1, {})))
    assert "2 more are in faults.jsonl." in text
    assert re.search(r"[0-9]+ more are in verdict.json", text)


def test_parts_of_an_explanation_are_shown() -> None:
    run = replace(
        recorded(LOSS),
        explanation={
            "point_of_no_return": {"at_ns": 5},
            "events": [1],
            "version": 2,
            "leading": "x",
        },
    )
    text = page_of(run)
    assert "<h3>Point of no return</h3>" in text
    assert "<h3>Events</h3>" not in text
    assert "What made it inevitable" not in page_of(recorded(LOSS))


def test_a_long_part_of_an_explanation_is_cut() -> None:
    run = replace(recorded(LOSS), explanation={"bytes": ["x" * 100] * 10_000})
    assert len(page_of(run)) < len(page_of(recorded(LOSS))) + 2 * page_module.EXTRA_CHARACTERS_MAX


def test_what_was_shrunk_is_shown_with_its_story() -> None:
    run = recorded(LOSS)
    assert "Shrunk" not in page_of(run)
    shrunk = Shrunk(
        folder=Path("runs/a-run/shrunk"),
        campaign_text=f"# {NASTY}",
        text="faults 9 -> 1",
        story="p1-7 is gone",
    )
    text = page_of(replace(run, shrunk=shrunk))
    for part in ("faults 9 -&gt; 1", "p1-7 is gone", "# &lt;script&gt;", 'data-copies="shrunk"'):
        assert part in text
    assert "<h3>Shrunk</h3>" in text
    still_at_work = page_of(replace(run, shrunk=replace(shrunk, story="")))
    assert "Story of the shrunk run" not in still_at_work


def test_the_issue_has_the_sections_of_the_form() -> None:
    issue = panels_of(recorded(LOSS)).issue
    assert re.findall(r"^### (.*)$", issue, re.MULTILINE) == [
        "Runtime platform environment",
        "RocketMQ version",
        "Describe the Bug",
        "Steps to Reproduce",
        "What Did You Expect to See?",
        "What Did You See Instead?",
        "Additional Context",
    ]
    assert "LOST  key a" in issue


@pytest.mark.parametrize("lines", [(), ("0 fail send a",), ("0 info send a",), ("9 ok drain",)])
def test_a_history_with_hardly_anything_in_it(lines: tuple[str, ...]) -> None:
    text = page_of(recorded(lines))
    assert '<h2 id="witnesses">' in text
    Tags(text)


def test_a_page_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Is a directory"):
        write_report(tmp_path, "x")
    write_report(tmp_path / "report.html", "x\udcff")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
