"""Wrongs of routes: which brokers, addresses, numbers of queues and permissions name servers name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from tests.checkers.mutations.draft import Draft
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.kinds_white_box import is_side, seen_of, with_seen, without_kind
from tests.checkers.mutations.model import EVIDENCE, Run, S, Site, choose


def _route(run: Run, rng: Random, site: Site) -> Mapping[str, Any]:
    return choose(
        rng,
        seen_of(run, "route"),
        lambda seen: (
            any(len(nodes) > 1 for nodes in (seen["brokers"] or {}).values())
            and run.is_at(site, seen["time_ns"])
        ),
    )


@KINDS.mutation("wrong_route", "a name server calls a slave the master")
def wrong_route(run: Run, rng: Random, site: Site) -> Run:
    seen = _route(run, rng, site)
    broker = rng.choice([name for name, nodes in sorted(seen["brokers"].items()) if len(nodes) > 1])
    nodes = seen["brokers"][broker]
    numbers = sorted(nodes)
    turned = dict(zip(numbers, [nodes[n] for n in (*numbers[1:], numbers[0])], strict=True))
    return with_seen(run, seen, brokers={**seen["brokers"], broker: turned})


@KINDS.mutation(
    "missing_route", "no name server names a broker that lives, until the end of the run"
)
def missing_route(run: Run, rng: Random, site: Site) -> Run | None:
    routes = seen_of(run, "route")
    living = run.facts.living_sets
    if not routes or not living or not is_side(run, site) or not run.facts.routes_observed:
        return None
    broker = rng.choice(living)
    begin_ns = run.end_ns - 130 * S
    draft = Draft(run)
    # A name server is told of a broker every 30 s, and forgets it after 120 s: the run goes on for longer than that.
    draft.shift_after(max(run.end_ns - 1, 0), 200 * S)
    times = range(run.end_ns, run.end_ns + 200 * S, 10 * S)
    last = routes[-1]
    more = [
        {**last, "time_ns": time_ns, "node": seen["node"]}
        for time_ns in times
        for seen in _last_by_node(routes)
    ]
    draft.observations = sorted(
        [*draft.observations, *more], key=lambda seen: seen.get("time_ns", 0)
    )
    draft.observe(
        lambda seen: seen["kind"] == "route" and seen["time_ns"] >= max(begin_ns, run.end_ns - S),
        lambda seen: {
            **seen,
            "brokers": {
                name: nodes for name, nodes in (seen["brokers"] or {}).items() if name != broker
            },
        },
    )
    return draft.finish()


def _last_by_node(routes: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return list({seen["node"]: seen for seen in routes}.values())


@KINDS.mutation("stale_route", "a name server still names a broker that has been dead for 200 s")
def stale_route(run: Run, rng: Random, site: Site) -> Run | None:
    routes = seen_of(run, "route")
    if not routes or site != "fault" or not run.facts.routes_observed or run.facts.living is None:
        return None
    dead = [name for name in run.facts.replica_sets if name not in run.facts.living]
    if not dead:
        return None
    broker = rng.choice(dead)
    nodes = {str(n): node for n, node in enumerate(run.facts.replica_sets[broker])}
    up = [node for node in routes[-1]["up"] if node not in run.facts.replica_sets[broker]]
    draft = Draft(run)
    draft.shift_after(run.end_ns - 1, 260 * S)
    more = [
        {
            **seen,
            "time_ns": time_ns,
            "brokers": {**(seen["brokers"] or {}), broker: nodes},
            "up": up,
        }
        for time_ns in range(run.end_ns, run.end_ns + 260 * S, 10 * S)
        for seen in _last_by_node(routes)
    ]
    draft.observations = sorted(
        [*draft.observations, *more], key=lambda seen: seen.get("time_ns", 0)
    )
    draft.observe(
        lambda seen: seen["kind"] == "route" and seen["time_ns"] >= run.end_ns,
        lambda seen: {**seen, "brokers": {**(seen["brokers"] or {}), broker: nodes}, "up": up},
    )
    return draft.finish()


def _topic_route(
    run: Run, rng: Random, site: Site, change: Callable[[list[int]], list[int]]
) -> Run | None:
    seen = choose(
        rng,
        seen_of(run, "topic_route"),
        lambda seen: is_side(run, site) and bool(seen["route"]) and seen["route"] == seen["master"],
    )
    return with_seen(run, seen, route=change(list(seen["route"])))


@KINDS.mutation(
    "route_mismatch", "after the run a name server names fewer queues to read than the master has"
)
def route_has_fewer_queues(run: Run, rng: Random, site: Site) -> Run | None:
    return _topic_route(run, rng, site, lambda route: [route[0] - 1, *route[1:]])


@KINDS.mutation(
    "route_mismatch",
    "after the run a name server calls a topic read-only that its master lets be written",
)
def route_has_other_permission(run: Run, rng: Random, site: Site) -> Run | None:
    return _topic_route(run, rng, site, lambda route: [*route[:2], 4 if route[2] != 4 else 6])


@KINDS.mutation(EVIDENCE, "no route was compared with its master", unknown_is_enough=True)
def topic_routes_unobserved(run: Run, rng: Random, site: Site) -> Run | None:
    return without_kind(run, site, "topic_route")
