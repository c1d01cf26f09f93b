"""README.md is short, every page is linked to, and docs/engine.md names modules and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TABLE = (ROOT / "docs" / "engine.md").read_text(encoding="utf-8")
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "tests" / "README.md"]
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TABLE.splitlines()
    if line.startswith("| ") and ".py" in line
]


def paths(cell: str, folder: str) -> list[Path]:
    names = re.findall(r"`([^`]+\.py)`", cell)
    return [
        ROOT / name
        if (ROOT / name).exists() and name.startswith(("faults/", "harness/", "tests/"))
        else ROOT / folder / name
        for name in names
    ]


def test_there_is_a_table() -> None:
    assert len(ROWS) > 25


def test_the_readme_is_the_first_minute() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_the_readme_leads_to_every_page_for_users() -> None:
    named = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    pages = [page.name for page in (ROOT / "docs").glob("*.md")]
    assert [name for name in pages if f"{name})" not in named and f"{name}#" not in named] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_modules_and_tests_of_a_feature_exist(row: list[str]) -> None:
    feature, module, tests = row
    modules, proofs = paths(module, "system_under_test"), paths(tests, "tests")
    assert modules
    assert proofs
    assert [path for path in (*modules, *proofs) if not path.exists()] == [], feature
