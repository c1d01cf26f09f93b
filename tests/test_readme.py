"""The feature table of the README names modules and tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TABLE = (ROOT / "README.md").read_text(encoding="utf-8").partition("## What the engine does")[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TABLE.partition("\n## ")[0].splitlines()
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


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_modules_and_tests_of_a_feature_exist(row: list[str]) -> None:
    feature, module, tests = row
    modules, proofs = paths(module, "system_under_test"), paths(tests, "tests")
    assert modules
    assert proofs
    assert [path for path in (*modules, *proofs) if not path.exists()] == [], feature
