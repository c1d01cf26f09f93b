"""Wrongs of what servers hold after the run."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from tests.checkers.mutations.draft import Draft
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.kinds_white_box import is_side, seen_of, with_seen, without_kind
from tests.checkers.mutations.model import EVIDENCE, Run, Site, choose

MANY = 40  # more than any slack


def _grown(run: Run, rng: Random, site: Site, name: str, more: int) -> Run | None:
    """A server has more of one thing in the end."""
    seen = choose(
        rng,
        [of for of in seen_of(run, "resources") if of["when"] == "end"],
        lambda _: is_side(run, site),
    )
    begin = _at_begin(run, seen["node"])
    return with_seen(run, seen, **{name: (begin[name] or 0) + more})


def _at_begin(run: Run, node: str) -> Mapping[str, Any]:
    """What a server held before the load."""
    return next(
        of for of in seen_of(run, "resources") if (of["node"], of["when"]) == (node, "begin")
    )


@KINDS.mutation("task_leak", "a server has 40 tasks more than before the load")
def task_leak(run: Run, rng: Random, site: Site) -> Run | None:
    return _grown(run, rng, site, "tasks", MANY)


@KINDS.mutation("socket_leak", "a server has 40 sockets more than before the load")
def socket_leak(run: Run, rng: Random, site: Site) -> Run | None:
    return _grown(run, rng, site, "sockets", MANY)


@KINDS.mutation("file_leak", "a server has 40 files open twice, and had none before the load")
def file_leak(run: Run, rng: Random, site: Site) -> Run | None:
    return _grown(run, rng, site, "surplus_files", MANY)


@KINDS.mutation("thread_leak", "a server has 40 threads more than before the load")
def thread_leak(run: Run, rng: Random, site: Site) -> Run:
    return _measured(run, rng, site, "threads", 5, 45)


@KINDS.mutation("memory_leak", "the memory of a server has grown by 1 GiB")
def memory_leak(run: Run, rng: Random, site: Site) -> Run:
    return _measured(run, rng, site, "memory_bytes", 60 << 20, 1084 << 20)


def _measured(run: Run, rng: Random, site: Site, name: str, begin: int, end: int) -> Run:
    """A server was measured before and after the load, which a simulation does not do."""
    nodes = sorted({of["node"] for of in seen_of(run, "resources") if of["when"] == "end"})
    node = choose(rng, nodes, lambda _: is_side(run, site))
    draft = Draft(run)
    draft.observe(
        lambda seen: seen["kind"] == "resources" and seen["node"] == node,
        lambda seen: {**seen, name: begin if seen["when"] == "begin" else end},
    )
    return draft.finish()


def _with_entries(
    run: Run, rng: Random, site: Site, table: str, entries: int, *, since_begin: bool = False
) -> Run | None:
    """A table of a broker has so many entries more in the end than it had then, or than before the load."""
    brokers = [of for of in seen_of(run, "resources") if of["when"] == "end" and of.get("tables")]
    seen = choose(rng, brokers, lambda _: is_side(run, site))
    tables = seen["tables"]
    counted = _at_begin(run, seen["node"])["tables"] if since_begin else tables
    return with_seen(run, seen, tables={**tables, table: counted.get(table, 0) + entries})


@KINDS.mutation("table_leak", "a broker holds 3 pulls of consumers that are gone")
def held_pulls_leak(run: Run, rng: Random, site: Site) -> Run | None:
    return _with_entries(run, rng, site, "heldPulls", 3)


@KINDS.mutation("table_leak", "a broker keeps the lock of a queue whose member is gone")
def lock_leak(run: Run, rng: Random, site: Site) -> Run | None:
    return _with_entries(run, rng, site, "queueLocks", 1)


@KINDS.mutation("table_leak", "a broker still counts a consumer that is gone as a member")
def member_leak(run: Run, rng: Random, site: Site) -> Run | None:
    return _with_entries(run, rng, site, "consumers", 1)


@KINDS.mutation("table_leak", "a broker keeps 2 half messages whose transactions are over")
def half_message_leak(run: Run, rng: Random, site: Site) -> Run | None:
    return _with_entries(run, rng, site, "endedHalfMessages", 2)


@KINDS.oddity("a broker may have heard of the harness's producer after the first look")
def one_more_producer(run: Run, rng: Random, site: Site) -> Run | None:
    return _with_entries(run, rng, site, "producers", 1, since_begin=True)


@KINDS.mutation(EVIDENCE, "what servers hold was not measured", unknown_is_enough=True)
def resources_unobserved(run: Run, rng: Random, site: Site) -> Run | None:
    return without_kind(run, site, "resources")
