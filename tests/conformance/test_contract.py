"""The contract as data: ids, sources, and the page that is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from staticfire.harness.conformance.case import selects
from staticfire.harness.conformance.clause import ContractError, Level, Need, contract, read_clauses
from staticfire.harness.conformance.sites.suite import choose

ROOT = Path(__file__).parent.parent.parent
CLAUSE = """
area = "A"
[[clause]]
id = "RMQ-REM-01"
level = "must"
needs = []
title = "T"
text = "X"
source = "S"
"""


def test_every_clause_has_text_and_source() -> None:
    for clause in contract().values():
        assert clause.text.endswith("."), clause.id
        assert clause.source, clause.id
        assert Need.WIRE in clause.needs


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"RMQ-REM-01"', '"REM-1"', "id is 'REM-1'; expected RMQ-<AREA>-<nn>"),
        ('"must"', '"shall"', "'shall' is not a valid Level"),
        ("needs = []", 'needs = ["luck"]', "'luck' is not a valid Need"),
        ('source = "S"', "", "'source'"),
        ("area", "[area", "Expected"),
    ],
)
def test_damaged_contract_is_refused(old: str, new: str, said: str) -> None:
    with pytest.raises(ContractError, match=r"a\.toml: ") as error:
        list(read_clauses(CLAUSE.replace(old, new), "a.toml"))

    assert said in str(error.value)


def test_selectors() -> None:
    clause = contract()["RMQ-SND-10"]

    assert selects("RMQ-SND-*", clause)
    assert selects("rmq-snd-10", clause)
    assert selects("level:must", clause)
    assert selects("needs:fault", clause)
    assert selects("area:snd", clause)
    assert not selects("area:REM", clause)
    with pytest.raises(ValueError, match="no selector"):
        selects("colour:red", clause)


def test_profiles_choose_by_area() -> None:
    assert {clause.area_id for clause in choose("nameserver", ())} == {"NS"}
    assert all(clause.level is Level.MAY for clause in choose("all", ("level:may",)))
    assert choose("broker-core", ("RMQ-NS-*",)) == ()


def test_the_store_of_java_is_the_one_that_our_store_is_tested_with() -> None:
    golden, ours = (
        ROOT / "tests" / "data" / "golden-store",
        ROOT / "harness" / "conformance" / "data",
    )

    for name, same in (
        ("store-clean.tar.xz", "java-store.tar.xz"),
        ("ledger.txt", "java-ledger.txt"),
    ):
        assert (golden / name).read_bytes() == (ours / same).read_bytes()
