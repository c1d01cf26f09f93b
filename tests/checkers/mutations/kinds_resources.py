"""Wrongs of what servers hold after the run."""

from __future__ import annotations

from random import Random

from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.kinds_white_box import is_side, seen_of, with_seen, without_kind
from tests.checkers.mutations.model import Run, Site, choose

MANY = 40  # more than any slack


def _grown(run: Run, rng: Random, site: Site, name: str, more: int) -> Run | None:
    """A server has more of one thing in the end."""
    seen = choose(
        rng,
        [of for of in seen_of(run, "resources") if of["when"] == "end"],
        lambda _: is_side(run, site),
    )
    if seen is None:
        return None
    begin = next(
        of
        for of in seen_of(run, "resources")
        if (of["node"], of["when"]) == (seen["node"], "begin")
    )
    return with_seen(run, seen, **{name: (begin[name] or 0) + more})


@KINDS.mutation("task_leak", "a server has 40 tasks more than before the load")
def task_leak(run: Run, rng: Random, site: Site) -> Run | None:
    return _grown(run, rng, site, "tasks", MANY)


@KINDS.mutation("socket_leak", "a server has 40 sockets more than before the load")
def socket_leak(run: Run, rng: Random, site: Site) -> Run | None:
    return _grown(run, rng, site, "sockets", MANY)


@KINDS.mutation("file_leak", "a server has 40 files open twice, and had none before the load")
def file_leak(run: Run, rng: Random, site: Site) -> Run | None:
    return _grown(run, rng, site, "surplus_files", MANY)


@KINDS.mutation("table_leak", "a broker holds 3 pulls of consumers that are gone")
def table_leak(run: Run, rng: Random, site: Site) -> Run | None:
    brokers = [of for of in seen_of(run, "resources") if of["when"] == "end" and of.get("tables")]
    seen = choose(rng, brokers, lambda _: is_side(run, site))
    if seen is None:
        return None
    return with_seen(run, seen, tables={**seen["tables"], "heldPulls": 3})


@KINDS.mutation("2 absent", "what servers hold was not measured", unknown_is_enough=True)
def resources_unobserved(run: Run, rng: Random, site: Site) -> Run | None:
    return without_kind(run, site, "resources")
