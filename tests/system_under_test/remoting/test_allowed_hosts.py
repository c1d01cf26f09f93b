"""Lists of addresses that may connect, and what is logged of the others."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.remoting.allowed_hosts import (
    REFUSALS_LOGGED_MAX,
    SHOWN_MAX,
    AllowedHosts,
    RefusalLog,
)
from tests.system_under_test.remoting.manual_loop import MemoryLog


@pytest.mark.parametrize(
    ("entries", "host", "allowed"),
    [
        ((), "10.0.0.1", True),
        ((), "", True),
        (("10.0.0.1",), "10.0.0.1", True),
        (("10.0.0.1",), "10.0.0.10", False),
        (("10.0.0.1",), "::ffff:10.0.0.1", True),  # as a socket for both families tells it
        (("10.0.0.1",), "::ffff:10.0.0.2", False),
        (("10.0.1.0/24", "10.0.3.0/24"), "10.0.3.255", True),
        (("10.0.1.0/24", "10.0.3.0/24"), "10.0.2.1", False),
        (("fd00::/8",), "fd12::1", True),
        (("fd00::/8",), "fe80::1", False),
        (("::/0",), "10.0.0.1", False),
        (("0.0.0.0/0",), "10.0.0.1", True),
        (("0.0.0.0/0",), "replica.example", False),
        (("0.0.0.0/0",), "", False),
    ],
)
def test_allows(entries: tuple[str, ...], host: str, allowed: bool) -> None:
    assert AllowedHosts(entries).allows(host) is allowed


@pytest.mark.parametrize("entry", ["nowhere", "10.0.0.7/24", "10.0.0", "10.0.0.*", ""])
def test_an_entry_that_is_no_block_is_an_error(entry: str) -> None:
    with pytest.raises(ValueError, match=r"does not appear to be|has host bits set"):
        AllowedHosts((entry,))


def test_a_refusal_is_logged_once(log: MemoryLog) -> None:
    refusals = RefusalLog(log)
    for _ in range(3):
        refusals.log_once("refused", peer="10.0.0.1")
        refusals.log_once("refused", peer="x" * SHOWN_MAX + "y")
    refusals.log_once("refused elsewhere", peer="10.0.0.1")
    assert log.events == [
        ("warning", "refused", {"peer": "10.0.0.1"}),
        ("warning", "refused", {"peer": "x" * SHOWN_MAX}),
        ("warning", "refused elsewhere", {"peer": "10.0.0.1"}),
    ]


def test_refusals_do_not_fill_the_log(log: MemoryLog) -> None:
    refusals = RefusalLog(log)
    for number in range(REFUSALS_LOGGED_MAX + 5):
        refusals.log_once("refused", peer=str(number))
    assert len(log.events) == REFUSALS_LOGGED_MAX
