"""Resources of servers, before the load and after the clients have ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticfire.checkers.guarantees.verdict import Verdict
from tests.support.history_language import facts, fault, history
from tests.support.one_checker import judged_by

HELD = {"tasks": 7, "threads": 9, "sockets": 5, "surplus_files": 0, "memory_bytes": 60 << 20}
TABLES = {"heldPulls": 1, "queueLocks": 0, "consumers": 0, "producers": 1, "consumerOffsets": 2}


def seen(when: str, node: str = "n0", **held: Any) -> dict[str, Any]:
    base = {"kind": "resources", "time_ns": 0, "node": node, "when": when, "acknowledged": 1000}
    return {**base, **HELD, **held}


def check(*observations: dict[str, Any], **changes: Any) -> Verdict:
    known = facts(resources_observed=True, **changes)
    return judged_by("resources", history("0 ok send a"), observations, known)


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ({}, ""),
        ({"tasks": 9}, ""),
        ({"tasks": 10}, "n0 has 10 tasks, 7 before the load"),
        ({"threads": 45}, ""),  # the default executor
        ({"threads": 46}, "n0 has 46 threads, 9 before the load"),
        ({"sockets": 9}, ""),
        ({"sockets": 10}, "n0 has 10 sockets, 5 before the load"),
        ({"surplus_files": 2}, ""),
        ({"surplus_files": 3}, "n0 has 3 surplus files, 0 before the load"),
        # 64 MiB, and 4 KiB for each of 1000 messages
        ({"memory_bytes": (124 << 20) + 4096 * 1000}, ""),
        (
            {"memory_bytes": (125 << 20) + 4096 * 1000},
            "n0: resident memory grew by 68 MiB, 67 are allowed",
        ),
        # less is no leak, and what could not be counted is none either
        ({"tasks": 1, "sockets": 0}, ""),
        (dict.fromkeys(HELD), ""),
    ],
)
def test_growth(held: dict[str, Any], words: str) -> None:
    verdict = check(seen("begin"), seen("end", **held))

    assert [finding.detail for finding in verdict.findings] == ([words] if words else [])
    assert verdict.valid is not bool(words)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ""),
        ({"heldPulls": 0}, ""),
        ({"heldPulls": 2}, "n0 has 2 heldPulls, 1 before the load"),
        ({"producers": 2}, ""),  # the harness's own
        ({"producers": 3}, "n0 has 3 producers, 1 before the load"),
        ({"consumerOffsets": 66}, ""),
        (
            {"consumerOffsets": 67, "queueLocks": 4},
            "n0 has 4 queueLocks, 0 before the load; 67 consumerOffsets, 2 before the load",
        ),
        ({"tables of a later version": 99}, ""),
    ],
)
def test_tables(changed: dict[str, int], words: str) -> None:
    verdict = check(seen("begin", tables=TABLES), seen("end", tables={**TABLES, **changed}))

    assert [finding.detail for finding in verdict.findings] == ([words] if words else [])
    assert verdict.counts.get("table_leak", 0) == bool(words)


@pytest.mark.parametrize("tables", [None, {}])
def test_tables_that_were_not_counted(tables: dict[str, int] | None) -> None:
    assert check(seen("begin", tables=TABLES), seen("end", tables=tables)).valid is True
    assert check(seen("begin", tables=tables), seen("end", tables=TABLES)).valid is True
    assert check(seen("begin"), seen("end")).valid is True  # recorded by an earlier version


def test_the_first_beginning_and_the_last_end_count() -> None:
    settled = (seen("begin"), seen("end", tasks=30), seen("end"))
    restarted = (seen("begin"), seen("begin", tasks=30), seen("end", tasks=30))

    assert check(*settled).valid is True
    assert check(*restarted).valid is False


def test_a_server_that_was_not_measured_is_unknown_unless_it_is_lost() -> None:
    brokers = {"b": ("n0", "n1")}
    both = (seen("begin"), seen("end"), seen("begin", "n1"))
    gone = fault("disk_lost", "n1", at_s=1, healed_s=None)

    verdict = check(*both, replica_sets=brokers)
    assert (verdict.valid, verdict.reason) == ("unknown", "not observed: resources of n1")
    permanent = replace(gone, permanent=True)
    assert check(*both, replica_sets=brokers, faults=(permanent,)).valid is True


def test_a_leak_counts_although_another_server_was_not_measured() -> None:
    verdict = check(seen("begin"), seen("end", sockets=60), coordinators=("ns-1",))

    assert verdict.valid is False
    assert verdict.counts == {"servers": 1, "socket_leak": 1}
