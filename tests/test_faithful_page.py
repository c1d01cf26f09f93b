"""docs/faithful.md lists every line of the policy table, with tests and campaigns that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from staticfire.harness.campaign.file import campaign_names, load_options
from staticfire.harness.store_crash.cycles import store_policy
from staticfire.harness.targets.own_cluster import known_policies

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/faithful.md").read_text(encoding="utf-8")
CAMPAIGNS = [name for name in campaign_names() if name.startswith("faithful-")]


def rows(title: str) -> list[list[str]]:
    """The cells of the table below a heading, without its head."""
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def name_in(cell: str) -> str:
    return cell.strip("`")


ROWS = rows("What differs")
MEASURED = [row for row in rows("What campaigns show") if row[0].startswith("`faithful-")]
CRASHED = [row for row in rows("What campaigns show") if row[0].startswith("`store.")]


def test_every_line_of_the_policy_table_is_listed_once() -> None:
    assert sorted(name_in(row[0]) for row in ROWS) == sorted(known_policies())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: name_in(row[0]))
def test_a_line_says_what_differs_and_which_test_shows_it(row: list[str]) -> None:
    policy, source, faithful, hardened, test, campaign = row
    assert all((policy, source, faithful, hardened))
    path, _, name = name_in(test).partition("::")
    text = (ROOT / "tests/system_under_test" / path).read_text(encoding="utf-8")
    assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), test
    if campaign == "`crash-store`":
        assert name_in(policy) in {name for row in CRASHED for name in name_in(row[0]).split(",")}
    elif not campaign.startswith("none: "):
        assert name_in(policy) in load_options(name_in(campaign))["policies"]


@pytest.mark.parametrize("campaign", CAMPAIGNS)
def test_a_campaign_is_named_by_the_lines_it_is_about(campaign: str) -> None:
    options = load_options(campaign)
    named = [name_in(row[0]) for row in ROWS if name_in(row[5]) == campaign]
    assert sorted(named) == sorted(options["policies"])
    assert options["mode"] == "faithful"


def test_what_crash_store_finds_has_its_figure() -> None:
    for names, failed in CRASHED:
        store_policy(name_in(names).split(","))
        assert int(failed.split()[0]) > 0


def test_every_campaign_was_measured_and_tells_the_modes_apart() -> None:
    assert [name_in(row[0]) for row in MEASURED] == CAMPAIGNS
    for _, faithful, checkers, hardened in MEASURED:
        assert int(faithful.split()[0]) > 0
        assert checkers
        assert int(hardened.split()[0]) == 0
