"""What the suite writes: read back by parsers that are not ours."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from staticfire.harness.cli.conform.command import conform
from staticfire.harness.conformance.clause import contract
from staticfire.harness.conformance.outputs.about import About
from staticfire.harness.conformance.outputs.files import badge, write_outputs
from staticfire.harness.conformance.outputs.html_matrix import html_matrix
from staticfire.harness.conformance.outputs.json_input import ReportError, read_report
from staticfire.harness.conformance.outputs.junit import junit_xml
from staticfire.harness.conformance.outputs.markdown import markdown
from staticfire.harness.conformance.result import CaseResult, Outcome
from staticfire.harness.conformance.sites.suite import SuiteResult
from staticfire.harness.version import versions

ABOUT = About(profile="all", command="staticfire conform")
NASTY = "<b>&\x00\x1b[31m | `x` \udcff"


def result(*outcomes: Outcome, reason: str = "because", floor: int = 1) -> SuiteResult:
    """One case an outcome, in the order of the contract."""
    clauses = list(contract().values())
    return SuiteResult(
        target="a target",
        results=tuple(
            CaseResult(
                clause=clause,
                outcome=outcome,
                reason="" if outcome is Outcome.PASSED else reason,
                took_s=0.5,
                wire_log=() if outcome is Outcome.PASSED else (f"-> request {reason}",),
            )
            for clause, outcome in zip(clauses, outcomes, strict=False)
        ),
        floor=floor,
    )


def test_junit_counts_what_did_not_run_as_skipped() -> None:
    document = junit_xml(result(*Outcome), command="staticfire conform")

    suite = ElementTree.fromstring(document)[0]
    assert suite.attrib["tests"] == str(len(Outcome))
    assert suite.attrib["failures"] == "1"
    assert suite.attrib["errors"] == "1"
    assert suite.attrib["skipped"] == "3"
    tags = [[child.tag for child in case] for case in suite]
    assert [] in tags
    assert ["failure", "system-out"] in tags


def test_junit_holds_any_text() -> None:
    document = junit_xml(result(Outcome.FAILED, reason=NASTY), command="c")

    failure = ElementTree.fromstring(document)[0][0][0]
    assert failure.attrib["message"] == r"<b>&\x00\x1b[31m | `x` \udcff"
    assert failure.text is not None
    assert len(failure.text.splitlines()) == 3  # clause, source, how to repeat it


def test_junit_shows_what_a_terminal_would_obey() -> None:
    """XML can hold C1 controls and marks that turn the direction of text."""
    document = junit_xml(result(Outcome.FAILED, reason="\x9b2J \u202e"), command="c")

    failure = ElementTree.fromstring(document)[0][0][0]
    assert failure.attrib["message"] == r"\x9b2J \u202e"


def test_json_tells_how_to_repeat(tmp_path: Path) -> None:
    write_outputs(result(Outcome.FAILED), tmp_path, profile="all", command="staticfire conform")

    document = json.loads((tmp_path / "conformance.json").read_text())
    assert document["schema_version"] == 1
    case = document["cases"][0]
    assert case["repeat"] == f"staticfire conform --select {case['id']}"
    assert case["wire_log"] == ["-> request because"]
    assert {path.name for path in tmp_path.iterdir()} == {
        "conformance.json",
        "junit.xml",
        "summary.md",
        "matrix.html",
        "badge.json",
    }


def test_markdown_escapes_and_counts() -> None:
    text = markdown(
        result(Outcome.PASSED, Outcome.FAILED, reason="a|b <i>"), profile="p", command="c"
    )

    assert "1 passed, 1 failed" in text
    assert "a\\|b \\<i\\>" in text


def test_page_shows_targets_side_by_side_and_escapes() -> None:
    passed = result(Outcome.PASSED, Outcome.PASSED)
    failed = result(Outcome.PASSED, Outcome.FAILED, reason="<script>boo")
    page = html_matrix([(passed, ABOUT), (failed, ABOUT)])

    assert page.count("a target</th>") == 4  # in the table of what failed, and in that of the area
    assert "&lt;script&gt;boo" in page
    assert "<script>boo" not in page


@pytest.mark.parametrize(
    ("outcomes", "floor", "colour"),
    [
        ((Outcome.PASSED, Outcome.PASSED), 1, "brightgreen"),
        ((Outcome.PASSED, Outcome.FAILED), 1, "red"),
        ((Outcome.PASSED, Outcome.NOT_RUN), 1, "lightgrey"),
        ((Outcome.PASSED, Outcome.PASSED), 3, "lightgrey"),
    ],
)
def test_badge_is_green_only_when_every_must_ran_and_passed(
    outcomes: tuple[Outcome, ...], floor: int, colour: str
) -> None:
    musts = [clause for clause in contract().values() if clause.level == "must"]
    results = tuple(
        CaseResult(clause=clause, outcome=outcome)
        for clause, outcome in zip(musts, outcomes, strict=False)
    )

    document = json.loads(badge(SuiteResult(target="t", results=results, floor=floor), profile="p"))

    assert document["color"] == colour
    assert document["schemaVersion"] == 1


def test_matrix_shows_earlier_reports_beside(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    write_outputs(result(*Outcome, reason="theirs"), theirs, profile="theirs' profile", command="c")

    again, about = read_report(theirs)
    write_outputs(result(Outcome.PASSED), ours, profile="p", command="c", others=[(again, about)])

    assert again == result(*Outcome, reason="theirs")
    assert about.profile == "theirs' profile"
    assert about.versions == versions()
    page = (ours / "matrix.html").read_text()
    assert page.count("a target</th>") == 4
    assert "theirs&#39; profile" in page
    assert "theirs" in page
    assert "theirs" not in (ours / "conformance.json").read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read: No such file"),
        ("{", "is not JSON"),
        ("[]", "has schema_version None; allowed: 1"),
        ('{"schema_version": 2}', "has schema_version 2; allowed: 1"),
        ('{"schema_version": 1, "target": "t", "cases": [5]}', "is no report of this suite"),
    ],
)
def test_damaged_report_is_one_sentence(text: str | None, said: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "conformance.json").write_text(text)

    with pytest.raises(ReportError) as error:
        read_report(tmp_path)

    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_the_workflow_uses_options_that_there_are() -> None:
    text = (Path(__file__).parents[2] / "docs/examples/workflows/conformance.yml").read_text()

    steps = yaml.safe_load(text)["jobs"]["conformance"]["steps"]

    commands = " ".join(step.get("run", "") for step in steps)
    used = re.findall(r"(?<= |\+)--[a-z-]+", commands.partition("staticfire conform")[2])
    known = {option for parameter in conform.params for option in parameter.opts}
    assert set(used) == {"--name-server", "--profile", "--expect", "--out"}
    assert set(used) <= known
    assert "report/summary.md" in commands
    # from a checkout: the name on the package index is not ours
    checkout = next(step["with"] for step in steps if "path" in step.get("with", {}))
    assert checkout["repository"] == "${{ inputs.staticfire }}"
    assert f"pip install --constraint .staticfire/constraints.txt ./{checkout['path']}" in commands
