"""Wrongs of routes: which brokers, addresses, numbers of queues and permissions name servers name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from staticfire.checkers.guarantees.facts import FaultFacts, QueuesConfirmed
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.kinds_white_box import seen_of, with_seen, without_kind
from tests.checkers.mutations.model import EVIDENCE, MS, NoSuchSite, Run, S
from tests.checkers.mutations.planting import Planting


def _route(draft: Planting) -> Mapping[str, Any]:
    return draft.choose(
        seen_of(draft.run, "route"),
        lambda seen: (
            any(len(nodes) > 1 for nodes in (seen["brokers"] or {}).values())
            and draft.is_here(seen["time_ns"])
        ),
    )


@KINDS.mutation("wrong_route", "a name server calls a slave the master")
def wrong_route(draft: Planting) -> None:
    seen = _route(draft)
    broker = draft.rng.choice(
        [name for name, nodes in sorted(seen["brokers"].items()) if len(nodes) > 1]
    )
    nodes = seen["brokers"][broker]
    numbers = sorted(nodes)
    turned = dict(zip(numbers, [nodes[n] for n in (*numbers[1:], numbers[0])], strict=True))
    with_seen(draft, seen, brokers={**seen["brokers"], broker: turned})


@KINDS.mutation(
    "missing_route", "no name server names a broker that lives, until the end of the run"
)
def missing_route(draft: Planting) -> None:
    run = draft.run
    routes = seen_of(run, "route")
    living = run.facts.living_sets
    if not routes or not living or not draft.is_of_site() or not run.facts.routes_observed:
        raise NoSuchSite
    broker = draft.rng.choice(living)
    begin_ns = run.end_ns - 130 * S
    # A broker registers every 30 s, and a name server forgets it after 120 s: the run goes on for longer than that.
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


def _last_by_node(routes: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return list({seen["node"]: seen for seen in routes}.values())


@KINDS.mutation("stale_route", "a name server still names a broker that has been dead for 200 s")
def stale_route(draft: Planting) -> None:
    run = draft.run
    routes = seen_of(run, "route")
    if (
        not routes
        or draft.site != "fault"
        or not run.facts.routes_observed
        or run.facts.living is None
    ):
        raise NoSuchSite
    dead = [name for name in run.facts.replica_sets if name not in run.facts.living]
    if not dead:
        raise NoSuchSite
    broker = draft.rng.choice(dead)
    nodes = {str(n): node for n, node in enumerate(run.facts.replica_sets[broker])}
    up = [node for node in routes[-1]["up"] if node not in run.facts.replica_sets[broker]]
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


def _topic_route(draft: Planting, change: Callable[[list[int]], list[int]]) -> None:
    seen = draft.choose(
        seen_of(draft.run, "topic_route"),
        lambda seen: draft.is_of_site() and bool(seen["route"]) and seen["route"] == seen["master"],
    )
    with_seen(draft, seen, route=change(list(seen["route"])))


@KINDS.mutation(
    "route_mismatch", "after the run a name server names fewer queues to read than the master has"
)
def route_has_fewer_queues(draft: Planting) -> None:
    _topic_route(draft, lambda route: [route[0] - 1, *route[1:]])


@KINDS.mutation(
    "route_mismatch",
    "after the run a name server calls a topic read-only that its master lets be written",
)
def route_has_other_permission(draft: Planting) -> None:
    _topic_route(draft, lambda route: [*route[:2], 4 if route[2] != 4 else 6])


@KINDS.mutation(EVIDENCE, "no route was compared with its master", unknown_is_enough=True)
def topic_routes_unobserved(draft: Planting) -> None:
    without_kind(draft, "topic_route")


def _named(run: Run, seen: Mapping[str, Any]) -> bool:
    """Whether a name server names the master of a broker, and says something of its topics."""
    nodes = run.facts.replica_sets.get(seen["broker_name"], ())
    return bool(seen["topics"]) and seen["addresses"].get("0") in nodes[:1]


@KINDS.mutation(
    "route_drift", "for a second a name server says a queue less than a topic's master has"
)
def route_goes_back(draft: Planting) -> None:
    run = draft.run
    changes = seen_of(run, "route_table")
    last = max((seen["time_ns"] for seen in run.observations), default=0)
    at_ns = draft.rng.randrange(last) if last else 0
    if not changes or not draft.is_here(at_ns):
        raise NoSuchSite
    said: dict[tuple[str, str], Mapping[str, Any]] = {}
    for seen in changes:
        if seen["time_ns"] <= at_ns:
            said[seen["node"], seen["broker_name"]] = seen
    ended = {
        (seen["node"], seen["life"])
        for seen in seen_of(run, "server_life")
        if seen["ended"] is not None
    }
    left = [of for of in said.values() if _named(run, of) and (of["node"], of["life"]) not in ended]
    # Of a topic that its master still has.
    tables = {
        of["node"]: of["topics"] for of in seen_of(run, "topic_table") if of["time_ns"] <= at_ns
    }
    places = [
        (of, topic)
        for of in left
        for topic, queues in sorted(of["topics"].items())
        if tables.get(of["addresses"]["0"], {}).get(topic) == queues
    ]
    if not places:
        raise NoSuchSite
    of, topic = draft.rng.choice(places)
    read, *more = of["topics"][topic]
    wrong = {**of, "time_ns": at_ns, "topics": {**of["topics"], topic: [read - 1, *more]}}
    draft.observations += [wrong, {**of, "time_ns": at_ns + S}]


def _at_the_end(draft: Planting) -> tuple[Mapping[str, Any], str, int] | None:
    """What a name server that runs said last of a replica set, a topic of it that the master has, and when all ends."""
    run = draft.run
    changes, lives = seen_of(run, "route_table"), seen_of(run, "server_life")
    if not changes or not draft.is_of_site():
        return None
    newest = {of["node"]: of for of in lives}
    tables = {of["node"]: of["topics"] for of in seen_of(run, "topic_table")}
    places = [
        (of, topic)
        for of in {(of["node"], of["broker_name"]): of for of in changes}.values()
        if _named(run, of)
        and all(newest[one]["ended"] is None for one in (of["node"], of["addresses"]["0"]))
        for topic, queues in sorted(of["topics"].items())
        if tables.get(of["addresses"]["0"], {}).get(topic) == queues
    ]
    if not places:
        return None
    of, topic = draft.rng.choice(places)
    return of, topic, max(run.end_ns, *(seen.get("time_ns", 0) for seen in run.observations))


def _without(topics: Mapping[str, Any], topic: str) -> dict[str, Any]:
    return {name: queues for name, queues in topics.items() if name != topic}


@KINDS.mutation(
    "route_drift",
    "a topic is deleted on its master and at the name servers, and 200 s later one still names it",
)
def removed_topic_stays(draft: Planting) -> None:
    place = _at_the_end(draft)
    if place is None:
        raise NoSuchSite
    of, topic, end_ns = place
    master = of["addresses"]["0"]
    table = next(s for s in reversed(seen_of(draft.run, "topic_table")) if s["node"] == master)
    draft.observations += [
        {**table, "time_ns": end_ns, "topics": _without(table["topics"], topic)},
        {"kind": "topic_removal", "time_ns": end_ns + S, "node": of["node"], "topic": topic},
        {**of, "time_ns": end_ns + 200 * S},
    ]


@KINDS.mutation(
    "route_drift",
    "a name server removes a topic once more after its master has made it anew, and lacks it for 200 s",
)
def removed_topic_stays_away(draft: Planting) -> None:
    place = _at_the_end(draft)
    if place is None:
        raise NoSuchSite
    of, topic, end_ns = place
    gone = {**of, "topics": _without(of["topics"], topic)}
    draft.observations += [
        {"kind": "topic_removal", "time_ns": end_ns, "node": of["node"], "topic": topic},
        {**gone, "time_ns": end_ns + MS},
        {**gone, "time_ns": end_ns + 200 * S},
    ]


@KINDS.mutation("departed_route", "a broker is stopped, and a name server names it 200 s later")
def departed_route(draft: Planting) -> None:
    run = draft.run
    changes, lives = seen_of(run, "route_table"), seen_of(run, "server_life")
    if not changes or not draft.is_of_site():
        raise NoSuchSite
    newest = {of["node"]: of for of in lives}
    last = {(of["node"], of["broker_name"]): of for of in changes}
    places = [
        (of, node)
        for of in last.values()
        for node in of["addresses"].values()
        if all(newest.get(one, {"ended": ""})["ended"] is None for one in (of["node"], node))
    ]
    if not places:
        raise NoSuchSite
    of, node = draft.rng.choice(places)
    end_ns = max(run.end_ns, *(seen.get("time_ns", 0) for seen in run.observations))
    ends = {**newest[node], "time_ns": end_ns, "ended": "terminated"}
    draft.observations += [ends, {**of, "time_ns": end_ns + 200 * S}]


@KINDS.mutation(EVIDENCE, "no change of a route was written down", unknown_is_enough=True)
def route_changes_unobserved(draft: Planting) -> None:
    without_kind(draft, "route_table")


def _confirm_more(draft: Planting, seen: Mapping[str, Any], at_ns: int) -> None:
    """Let the leader that an observation of a topic is about confirm two queues more than it has."""
    run, facts = draft.run, draft.run.facts
    leader = facts.replica_sets[seen["broker_name"]][0]
    if any("empties" in fault.effects and leader in fault.targets for fault in facts.faults):
        raise NoSuchSite
    confirmed = QueuesConfirmed(
        topic=seen["topic"],
        stream=seen["broker_name"],
        queues=max(seen["master"][:2]) + 2,
        answered_ns=at_ns,
    )
    fault = FaultFacts(
        fault_id="planted",
        kind="topic_change",
        targets=(),
        fired_ns=at_ns - S,
        bitten_ns=at_ns,
        healed_ns=at_ns,
        confirmed=(confirmed,),
    )
    draft.facts = replace(run.facts, faults=(*facts.faults, fault))


def _compared(draft: Planting) -> Mapping[str, Any]:
    """A comparison of a route with the table of a leader after the run."""
    seen = seen_of(draft.run, "topic_route")
    return draft.choose(seen, lambda seen: draft.is_of_site() and bool(seen["master"]))


@KINDS.mutation(
    "route_mismatch", "after the load a master confirms two queues more, which are never made"
)
def confirmed_queues_are_not_made(draft: Planting) -> None:
    seen = _compared(draft)
    _confirm_more(draft, seen, seen["time_ns"] - S)


@KINDS.mutation(
    "route_drift", "15 s before the end a master confirms two queues more, which are never made"
)
def confirmed_queues_are_not_registered(draft: Planting) -> None:
    if not draft.run.facts.route_changes_observed:
        raise NoSuchSite
    _confirm_more(draft, _compared(draft), draft.run.end_ns - 15 * S)
