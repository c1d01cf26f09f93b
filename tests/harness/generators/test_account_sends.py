"""Sends of other accounts beside the load: their number, their accounts, and workloads without any."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from staticfire.harness.accounts import ACCOUNTS, GUEST, REFUSED
from staticfire.harness.accounts import PLAIN as PLAIN_TEXT
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.generators.account_sends import GUEST_SHARE, REFUSED_SHARE
from staticfire.harness.generators.keyed_sends import KeyedSends

PLAIN = {
    "batch_share": 0.0,
    "one_way_share": 0.0,
    "async_share": 0.0,
    "illegal_share": 0.0,
    "large_share": 0.0,
    "tls": "disabled",
}
OPS = 4000


def values(given: dict[str, Any]) -> list[Mapping[str, Any]]:
    sends = KeyedSends(Random(1), draw_campaign(1, {**PLAIN, **given}))
    return [op[1] for _ in range(OPS) if (op := sends.next_op(0)) is not None]


def test_some_sends_are_those_of_accounts_without_a_right() -> None:
    refused = [value for value in values({"acl": True}) if "illegal" in value]
    assert 0.5 * REFUSED_SHARE * OPS < len(refused) < 1.5 * REFUSED_SHARE * OPS
    assert {value["illegal"]: value["account"] for value in refused} == REFUSED


def test_some_are_those_of_a_guest() -> None:
    guests = [value for value in values({"acl": True}) if value.get("account") == GUEST]
    assert 0.5 * GUEST_SHARE * OPS < len(guests) < 1.5 * GUEST_SHARE * OPS
    assert not any("illegal" in value for value in guests)
    assert GUEST in ACCOUNTS


def test_the_load_is_the_same_without() -> None:
    mixed = [value for value in values({"acl": True}) if "illegal" not in value]
    sizes = [value["size"] for value in mixed]
    assert sizes == [value["size"] for value in values({"acl": False})][: len(sizes)]


@pytest.mark.parametrize(
    "given",
    [
        {"acl": False},
        {"acl": True, "gap_max_s": 5.0},
        {"acl": True, "client": "cpp", "environment": "processes"},
    ],
)
def test_there_are_none_without_accounts_or_where_each_send_counts(given: dict[str, Any]) -> None:
    assert not any("account" in value for value in values(given))


@pytest.mark.parametrize(("mode", "some"), [("enforcing", True), ("permissive", False)])
def test_plain_text_is_sent_where_tls_is_enforced(mode: str, some: bool) -> None:
    refused = [value for value in values({"acl": False, "tls": mode}) if "illegal" in value]
    assert {(value["illegal"], value["account"]) for value in refused} == (
        {("no TLS", PLAIN_TEXT)} if some else set()
    )


@pytest.mark.parametrize("given", [{"one_way_share": 1.0}, {"async_share": 1.0}])
def test_a_guest_waits_for_its_answer(given: dict[str, Any]) -> None:
    assert not any(value.get("account") == GUEST for value in values({"acl": True, **given}))
