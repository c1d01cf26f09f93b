"""Planted bugs as data: every diff applies to the system as it is now, and what is said about it is true."""

from __future__ import annotations

import ast
import py_compile
import re
import shutil
import subprocess
import sys
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
    copy_system,
    defect_named,
    plant,
)
from staticfire.faults.defects.diffs import DiffError, apply_diff
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


def named_files(diff: str, folder: Path) -> Path:
    """The files of the system that a diff names, copied into `folder`; returns the copy of the package."""
    for name in re.findall(rf"^--- a/({SYSTEM}/\S+)", diff, re.MULTILINE):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder / SYSTEM


@each_defect
def test_a_defect_changes_a_few_lines_of_the_system_and_applies_once(
    defect: Defect, tmp_path: Path
) -> None:
    sound = named_files(defect.diff.decode(), tmp_path / "sound")
    planted = plant(defect, sound, tmp_path / "once")
    files = list(sound.rglob("*.py"))
    assert files
    for path in files:
        changed = planted / path.relative_to(sound)
        assert changed.read_bytes() != path.read_bytes()
        ast.parse(changed.read_text(encoding="utf-8"))
    assert 0 < len(changed_lines(defect.diff.decode())) <= LINES_MAX
    with pytest.raises(DefectError, match=f"{defect.name} does not apply"):
        plant(defect, planted, tmp_path / "twice")


# Of the messages of mypy, those about code that cannot run. A defect may leave an argument unused, or a type too wide.
CANNOT_RUN = re.compile(r"\[(attr-defined|name-defined|call-arg|import-not-found)\]$", re.MULTILINE)


@pytest.mark.slow
def test_a_defect_names_nothing_that_the_system_has_no_more(tmp_path: Path) -> None:
    """An AttributeError of the defect would be refused requests of a broker, and no bug that anything can find.

    As many defects as apply together are checked at a time.
    """
    left = dict(DEFECTS)
    while left:
        together = [name for name in left if _applies(left[name], tmp_path)]
        wrong = _messages_of_mypy(tmp_path)
        assert not wrong, "\n".join(wrong)
        assert together
        for name in together:
            del left[name]
        shutil.rmtree(tmp_path / SYSTEM)


def _applies(defect: Defect, folder: Path) -> bool:
    if not (folder / SYSTEM).exists():
        copy_system(ROOT / SYSTEM, folder)
    try:
        apply_diff(defect.diff.decode(), folder)
    except DiffError:
        return False
    return True


def _messages_of_mypy(folder: Path) -> list[str]:
    (folder / "staticfire").mkdir(exist_ok=True)
    link = folder / "staticfire" / SYSTEM
    if not link.is_symlink():
        link.symlink_to(f"../{SYSTEM}")
    options = ("--strict", "--explicit-package-bases", "--namespace-packages")
    command = [sys.executable, "-m", "mypy", *options, f"staticfire/{SYSTEM}"]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert said.returncode in (0, 1), said.stderr
    return [line for line in said.stdout.splitlines() if CANNOT_RUN.search(line)]


def test_compiled_modules_are_copied_but_for_that_of_the_changed_file(tmp_path: Path) -> None:
    system = tmp_path / SYSTEM
    system.mkdir()
    for name in ("sound", "wrong"):
        (system / f"{name}.py").write_text("MODE = 1\n")
        py_compile.compile(str(system / f"{name}.py"), doraise=True)
    (system / "__pycache__" / "sound.of-another-interpreter.pyc").touch()
    diff = f"--- a/{SYSTEM}/wrong.py\n+++ b/{SYSTEM}/wrong.py\n@@ -1 +1 @@\n-MODE = 1\n+MODE = 2\n"
    copy = plant(Defect(name="d", diff=diff.encode(), title="t"), system, tmp_path / "copy")
    assert (copy / "wrong.py").read_text() == "MODE = 2\n"
    assert [path.name for path in copy.rglob("*.pyc")] == [
        f"sound.{sys.implementation.cache_tag}.pyc"
    ]


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
