"""Wrongs of what servers hold after the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.kinds_white_box import seen_of, with_seen, without_kind
from tests.checkers.mutations.model import EVIDENCE, Run
from tests.checkers.mutations.planting import Planting

MANY = 40  # more than any slack


def _grown(draft: Planting, name: str, more: int) -> None:
    """A server has more of one thing in the end."""
    seen = draft.choose(
        [of for of in seen_of(draft.run, "resources") if of["when"] == "end"],
        lambda _: draft.is_of_site(),
    )
    begin = _at_begin(draft.run, seen["node"])
    with_seen(draft, seen, **{name: (begin[name] or 0) + more})


def _at_begin(run: Run, node: str) -> Mapping[str, Any]:
    """What a server held before the load."""
    return next(
        of for of in seen_of(run, "resources") if (of["node"], of["when"]) == (node, "begin")
    )


@KINDS.mutation("task_leak", "a server has 40 tasks more than before the load")
def task_leak(draft: Planting) -> None:
    _grown(draft, "tasks", MANY)


@KINDS.mutation("socket_leak", "a server has 40 sockets more than before the load")
def socket_leak(draft: Planting) -> None:
    _grown(draft, "sockets", MANY)


@KINDS.mutation("file_leak", "a server has 40 files open twice, and had none before the load")
def file_leak(draft: Planting) -> None:
    _grown(draft, "surplus_files", MANY)


@KINDS.mutation("thread_leak", "a server has 40 threads more than before the load")
def thread_leak(draft: Planting) -> None:
    _measured(draft, "threads", 5, 45)


@KINDS.mutation("memory_leak", "the memory of a server has grown by 1 GiB")
def memory_leak(draft: Planting) -> None:
    _measured(draft, "memory_bytes", 60 << 20, 1084 << 20)


def _measured(draft: Planting, name: str, begin: int, end: int) -> None:
    """A server was measured before and after the load, which a simulation does not do."""
    nodes = sorted({of["node"] for of in seen_of(draft.run, "resources") if of["when"] == "end"})
    node = draft.choose(nodes, lambda _: draft.is_of_site())
    draft.observe(
        lambda seen: seen["kind"] == "resources" and seen["node"] == node,
        lambda seen: {**seen, name: begin if seen["when"] == "begin" else end},
    )


def _with_entries(draft: Planting, table: str, entries: int, *, since_begin: bool = False) -> None:
    """A table of a broker has so many entries more in the end than it had then, or than before the load."""
    brokers = [
        of for of in seen_of(draft.run, "resources") if of["when"] == "end" and of.get("tables")
    ]
    seen = draft.choose(brokers, lambda _: draft.is_of_site())
    tables = seen["tables"]
    counted = _at_begin(draft.run, seen["node"])["tables"] if since_begin else tables
    with_seen(draft, seen, tables={**tables, table: counted.get(table, 0) + entries})


@KINDS.mutation("table_leak", "a broker holds 3 pulls of consumers that are gone")
def held_pulls_leak(draft: Planting) -> None:
    _with_entries(draft, "heldPulls", 3)


@KINDS.mutation("table_leak", "a broker keeps the lock of a queue whose member is gone")
def lock_leak(draft: Planting) -> None:
    _with_entries(draft, "queueLocks", 1)


@KINDS.mutation("table_leak", "a broker still counts a consumer that is gone as a member")
def member_leak(draft: Planting) -> None:
    _with_entries(draft, "consumers", 1)


@KINDS.mutation("table_leak", "a broker keeps 2 half messages whose transactions are over")
def half_message_leak(draft: Planting) -> None:
    _with_entries(draft, "endedHalfMessages", 2)


@KINDS.oddity("a broker may have heard of the harness's producer after the first look")
def one_more_producer(draft: Planting) -> None:
    _with_entries(draft, "producers", 1, since_begin=True)


@KINDS.mutation(EVIDENCE, "what servers hold was not measured", unknown_is_enough=True)
def resources_unobserved(draft: Planting) -> None:
    without_kind(draft, "resources")


@KINDS.mutation(
    "internal_error", "a server logs a KeyError, answers with an error code, and goes on"
)
def caught_key_error(draft: Planting) -> None:
    nodes = sorted({of["node"] for of in seen_of(draft.run, "resources") if of["when"] == "end"})
    node = draft.choose(nodes, lambda _: draft.is_of_site())
    draft.observations.append(
        {
            "kind": "internal_error",
            "time_ns": draft.run.end_ns,
            "node": node,
            "event": "request failed",
            "error": "KeyError: 'offsets'",
            "times": 3,
        }
    )
