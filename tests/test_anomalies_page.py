"""docs/anomalies.md lists every anomaly of every checker, with kernels, tests and examples that hold."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from staticfire.checkers.verdicts.compose import ALL_CHECKERS, check_run
from staticfire.harness.pages.anomalies import kernel_of
from tests.support.history_language import facts, history
from tests.support.txn_language import txns

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/anomalies.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| `")
]
FINDERS = {anomaly: checker for checker in ALL_CHECKERS for anomaly in checker.anomalies}
EXAMPLES = [(row[0].strip("`"), row[5].strip("`")) for row in ROWS if row[5].startswith("`")]


def test_every_anomaly_is_listed_once() -> None:
    assert sorted(row[0].strip("`") for row in ROWS) == sorted(FINDERS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip("`"))
def test_kernel_and_test_of_an_anomaly(row: list[str]) -> None:
    anomaly, title, definition, kernel, test, example = (cell.strip("`") for cell in row)
    assert title
    assert definition
    assert example
    finder = FINDERS[anomaly]
    assert kernel == kernel_of(finder)
    docstring = ast.get_docstring(ast.parse((ROOT / kernel).read_text(encoding="utf-8")))
    phenomenon = re.sub("-(process|realtime)$", "", anomaly)
    assert f"**{phenomenon}**" in str(docstring), f"{kernel} does not define {phenomenon}"
    planted = (ROOT / test).read_text(encoding="utf-8")
    assert phenomenon in planted or finder.name in planted, f"{test} does not name {phenomenon}"


@pytest.mark.parametrize(("anomaly", "lines"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_an_example_shows_its_anomaly(anomaly: str, lines: str) -> None:
    is_txn = lines.startswith("txn: ")
    ops = (txns if is_txn else history)(*lines.removeprefix("txn: ").split(" / "))

    found = {finding.anomaly for finding in check_run(ops, [], facts()).findings()}
    assert anomaly in found


def test_most_examples_are_histories() -> None:
    assert len(EXAMPLES) > len(ROWS) // 3
