"""Planted bugs as data: every diff applies to the system as it is now, and what is said about it is true."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from staticfire.checkers.verdicts.compose import ALL_CHECKERS
from staticfire.faults.defects import (
    DEFECTS,
    HERE,
    SYSTEM,
    TIERS,
    Defect,
    DefectError,
    Museum,
    defect_named,
    plant,
)
from staticfire.harness.cli.options import given_options
from staticfire.harness.conformance.case import cases
from staticfire.harness.draws.campaign import draw_campaign

ROOT = Path(__file__).parents[2]
LINES_MAX = 12  # of the system, changed by one defect
NO_OPTIONS: dict[str, Any] = dict.fromkeys(("campaign", "followers", "leaders", "faults"))

each_defect = pytest.mark.parametrize("defect", DEFECTS.values(), ids=list(DEFECTS))


def changed_lines(diff: str) -> list[str]:
    return [
        line
        for line in diff.splitlines()
        if line.startswith(("+", "-")) and not line.startswith(("+++ ", "--- "))
    ]


def test_every_description_has_a_diff_and_every_diff_a_description() -> None:
    assert sorted(path.stem for path in HERE.glob("*.diff")) == sorted(DEFECTS)


@each_defect
def test_a_defect_changes_a_few_lines_of_the_system(defect: Defect, tmp_path: Path) -> None:
    planted = plant(defect, ROOT / SYSTEM, tmp_path)
    changed = [
        path
        for path in sorted(planted.rglob("*.py"))
        if path.read_bytes() != (ROOT / SYSTEM / path.relative_to(planted)).read_bytes()
    ]
    assert changed
    for path in changed:
        ast.parse(path.read_text(encoding="utf-8"))
    assert 0 < len(changed_lines(defect.diff.decode())) <= LINES_MAX


@each_defect
def test_a_defect_can_be_planted_once_only(defect: Defect, tmp_path: Path) -> None:
    planted = plant(defect, ROOT / SYSTEM, tmp_path / "once")
    with pytest.raises(DefectError, match=f"{defect.name} does not apply"):
        plant(defect, planted, tmp_path / "twice")


@each_defect
def test_what_is_said_about_a_defect_is_complete(defect: Defect) -> None:
    assert defect.title
    assert defect.source
    assert defect.tier in TIERS
    names = [checker.name for checker in ALL_CHECKERS]
    assert defect.checkers
    assert set(defect.checkers) <= set(names)


@each_defect
def test_a_defect_breaks_clauses_of_the_contract_or_says_why_not(defect: Defect) -> None:
    assert bool(defect.conform) != bool(defect.not_by_conformance)
    assert set(defect.conform) <= set(cases())


def test_the_museum_is_as_large_as_it_says() -> None:
    tiers = Counter(defect.tier for defect in DEFECTS.values())
    assert len(DEFECTS) >= 70
    assert tiers["B"] >= 15
    assert tiers["M"] >= 20


@each_defect
def test_a_recipe_is_a_campaign(defect: Defect) -> None:
    campaign = draw_campaign(1, given_options(**NO_OPTIONS, defect=defect.name))
    assert campaign.defect == defect.name
    assert campaign.plan or defect.campaign["faults"] == []


@pytest.mark.parametrize(
    "name",
    [f"b/{SYSTEM}/../../outside.py", "b/../outside.py", "/outside.py", "b/harness/cli.py"],
)
def test_a_diff_leads_nowhere_else(name: str, tmp_path: Path) -> None:
    system, folder = tmp_path / SYSTEM, tmp_path / "copy"
    for made in (system, folder):
        made.mkdir()
    outside = tmp_path / "outside.py"
    outside.write_text("sound\n")
    (system / "mode.py").write_text("sound\n")
    diff = tmp_path / "evil.diff"
    diff.write_text(f"--- a/{SYSTEM}/mode.py\n+++ {name}\n@@ -1,1 +1,1 @@\n-sound\n+evil\n")
    with pytest.raises(DefectError):
        plant(defect_named(str(diff)), system, folder)
    assert outside.read_text() == "sound\n"


def test_an_unknown_defect_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        DefectError, match=r"'no-such', and not a \.diff file; there are: ack-before-fsync, "
    ):
        defect_named("no-such")


@pytest.mark.parametrize(
    ("key", "wrong"), [('title = "t"\nconforms = []', "conforms"), ("", "title")]
)
def test_a_file_with_a_wrong_key_is_named(key: str, wrong: str, tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_text(key)
    (tmp_path / "odd.diff").touch()
    museum = Museum(tmp_path)
    assert list(museum) == ["odd"]
    with pytest.raises(DefectError, match=rf"odd\.toml does not describe a defect: .*'{wrong}'"):
        museum["odd"]


def test_a_diff_is_planted_by_its_path(tmp_path: Path) -> None:
    system, folder, diff = tmp_path / SYSTEM, tmp_path / "copy", tmp_path / "my.diff"
    for made in (system, folder):
        made.mkdir()
    (system / "mode.py").write_text("sound\n")
    diff.write_text(
        f"--- a/{SYSTEM}/mode.py\n+++ b/{SYSTEM}/mode.py\n@@ -1 +1 @@\n-sound\n+wrong\n"
    )
    defect = defect_named(str(diff))
    copy = plant(defect, system, folder)
    assert (copy / "mode.py").read_text() == "wrong\n"
    assert (defect.name, defect.title, defect.campaign) == (str(diff), "the diff my.diff", {})
    with pytest.raises(DefectError, match=r"the diff '.*/no\.diff' cannot be read: No such file"):
        defect_named(str(tmp_path / "no.diff"))
