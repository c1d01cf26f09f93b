"""Routes and live servers: coordinators name the live brokers, and clients fail over to another coordinator fast.

**wrong_route**: a coordinator names an address that no node of this replica set has, or that a node has under another
number (0 is the leader). **stale_route**: it names a broker that has been dead for longer than a coordinator keeps a
silent broker (120 s without a heartbeat, checked every 10 s), or names a broker again that has not run since it stopped
naming it. Time in which a fault affects this coordinator does not count. **missing_route**: it does not name a live
broker, for longer than brokers take to register again (every 30 s). Time in which the two could not communicate does
not count. If a broker creates a topic with its first message, the time begins when a coordinator first named the
broker. After the drain no fault excuses a route that lacks a live broker. It is also a finding if a coordinator names a
broker in the routes of topics, but not in its list of the cluster, or the reverse (`route_changes.py`).
**departed_route**: it names a server that has ended (`route_changes.py`). **slow_failover**: a client took too long to
its first queue or acknowledgement. It had started while some coordinators were broken and at least one worked, and no
other server was broken, or broke within the time that the client has.

The harness queries every coordinator every few seconds, and records changed answers, with the brokers that ran at that
moment. After the drain it repeats the query until the routes name all live brokers, for longer than brokers take to
register again, and records which ones they still lack (`topic_route`).

Cannot see: wrong routes that last less than the interval of queries; a coordinator that does not answer; clients that
had learned their route before a coordinator broke, because they need none; a topic that a broker created automatically,
if no coordinator ever learned of it.

Source: RouteInfoManager of Apache RocketMQ 4.9 (scanNotActiveBroker); bugs of stale routes after a restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

from staticfire.checkers.engine.kernel import Checker, Context, no_rows, some_rows
from staticfire.checkers.engine.observed import NOT_OBSERVED, observed_verdict
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.guarantees.fault_effects import FORGETS, STALLS, STOPS
from staticfire.checkers.guarantees.fault_times import began_ns, by_target, healed_ns
from staticfire.checkers.guarantees.promises import FOREVER_NS, NS_PER_S
from staticfire.checkers.guarantees.verdict import Finding, Verdict, seconds
from staticfire.checkers.model.columns import Columns, Ints, Outcome
from staticfire.checkers.model.intervals import Span, joined, without
from staticfire.checkers.model.timeline import Opened
from staticfire.checkers.white_box.route_changes import (
    Changes,
    contradictions,
    departures,
    route_finding,
)

# the interval of a coordinator's checks, 10 s, and the interval of the harness's queries
GHOST_SLACK_S = 30.0
MISSES = 1.5  # registration intervals: one, and the interval of the harness's queries
SWITCHED_NS = 10 * NS_PER_S  # two timeouts of 3 s, and a rebalance
NS_PER_MS = 1_000_000
BREAKS_SERVERS = frozenset({STOPS, STALLS, FORGETS})
Seen = Mapping[str, Any]


def check_routes(_columns: Columns, context: Context) -> Verdict:
    """Judge the answers of each coordinator."""
    answers: dict[str, list[Seen]] = {}
    for seen in context.observations:
        if seen["kind"] == "route":
            answers.setdefault(seen["node"], []).append(seen)
    since_ns = _known_since(context, answers)
    findings = [
        finding
        for node, of_node in sorted(answers.items())
        for finding in _judge_server(context, node, of_node, since_ns)
    ]
    counts = {"answers": sum(map(len, answers.values())), "name_servers": len(answers)}
    findings += _unnamed_at_rest(context)
    missing = None if answers else NOT_OBSERVED
    if context.facts.route_changes_observed:
        changes = Changes(context.observations)
        findings += departures(context, changes)
        findings += contradictions(context, changes)
        missing = changes.unobserved(context) or missing
    return observed_verdict("routes", findings, counts, missing)


def _unnamed_at_rest(context: Context) -> Iterator[Finding]:
    """Yield a finding for each live broker that a coordinator's route of any topic lacked after the drain."""
    reported: set[tuple[str, str]] = set()
    for seen in context.observations:
        for replica in seen.get("unnamed", ()) if seen["kind"] == "topic_route" else ():
            if (seen["node"], replica) not in reported:
                reported.add((seen["node"], replica))
                detail = f"{replica}: {seen['node']} did not name it after the drain"
                broker, topic, at_ns = seen["broker_name"], seen["topic"], int(seen["time_ns"])
                yield route_finding(context, "missing_route", at_ns, broker, detail, topic)


def _known_since(context: Context, answers: Mapping[str, Sequence[Seen]]) -> dict[str, int]:
    """Return, by replica set, the time in ns from which on it has the topic, if known."""
    if context.facts.topics_everywhere:
        return dict.fromkeys(context.facts.replica_sets, 0)
    first: dict[str, int] = {}
    for seen in (seen for of_node in answers.values() for seen in of_node):
        for broker in seen["brokers"] or {}:
            first[broker] = min(int(seen["time_ns"]), first.get(broker, FOREVER_NS))
    return first


def _judge_server(
    context: Context, node: str, answers: Sequence[Seen], since_ns: Mapping[str, int]
) -> Iterator[Finding]:
    answers = sorted(answers, key=lambda seen: int(seen["time_ns"]))
    yield from _wrong(context, node, answers)
    for broker, nodes in sorted(context.facts.replica_sets.items()):
        before = Span(0, since_ns.get(broker, FOREVER_NS))
        for replica in nodes:
            ghost = _while(answers, lambda seen, of=(broker, replica): _is_ghost(seen, *of))
            absent = _while(answers, lambda seen, of=(broker, replica): _is_missing(seen, *of))
            stale = [*_too_long(context, node, "stale_route", replica, ghost, ())]
            yield from stale or _named_again(context, node, broker, replica, answers)
            yield from _too_long(context, node, "missing_route", replica, absent, (before,))


def _wrong(context: Context, node: str, answers: Sequence[Seen]) -> Iterator[Finding]:
    reported: set[tuple[str, str, str]] = set()
    for seen in answers:
        for broker, addresses in (seen["brokers"] or {}).items():
            nodes = context.facts.replica_sets.get(broker, ())
            for number, replica in addresses.items():
                right = number.isdecimal() and nodes[int(number) : int(number) + 1] == (replica,)
                if not right and (broker, number, replica) not in reported:
                    reported.add((broker, number, replica))
                    detail = f"{node} says that {replica} is number {number} of {broker}"
                    yield route_finding(
                        context, "wrong_route", int(seen["time_ns"]), broker, detail
                    )


def _is_ghost(seen: Seen, broker: str, replica: str) -> bool:
    return _names(seen, broker, replica) and replica not in seen["up"]


def _is_missing(seen: Seen, broker: str, replica: str) -> bool:
    answered = seen["brokers"] is not None
    return answered and replica in seen["up"] and not _names(seen, broker, replica)


def _names(seen: Seen, broker: str, replica: str) -> bool:
    return replica in (seen["brokers"] or {}).get(broker, {}).values()


def _while(answers: Sequence[Seen], holds: Any) -> list[Span]:
    """Return the intervals, from an answer to the next one, in which a condition held. The last answer has none."""
    times = [int(seen["time_ns"]) for seen in answers]
    pairs = zip(answers, times, times[1:], strict=False)
    return joined(Span(at_ns, next_ns) for seen, at_ns, next_ns in pairs if holds(seen))


def _too_long(
    context: Context,
    node: str,
    anomaly: str,
    replica: str,
    spans: Sequence[Span],
    not_asked: Sequence[Span],
) -> Iterator[Finding]:
    """Yield a finding for the first interval that is too long, not counting time that a fault excuses."""
    timings, is_ghost = context.facts.timings, anomaly == "stale_route"
    bound_s = timings.channel_expiry_s + GHOST_SLACK_S if is_ghost else timings.register_s * MISSES
    what = "named it, although it was dead," if is_ghost else "did not name it"
    # The end of a broker does not excuse a route that names it.
    nodes = (node,) if is_ghost else (node, replica)
    excused = context.excuses.spans(anomaly, None, nodes)
    for span in without(spans, not_asked):
        length_ns = sum(piece.length_ns for piece in without([span], excused))
        if length_ns > bound_s * NS_PER_S:
            detail = f"{replica}: {node} {what} for {seconds(length_ns)}"
            yield route_finding(context, anomaly, span.start_ns, None, detail)
            return


def _named_again(
    context: Context, node: str, broker: str, replica: str, answers: Sequence[Seen]
) -> Iterator[Finding]:
    """Yield a finding for the first time at which a coordinator named a broker again that had not run in between."""
    heard_ns = int(2 * context.facts.timings.request_s * NS_PER_S)
    unnamed_ns: int | None = None  # the time from which on the broker is dead and not named
    for seen, following in pairwise(answers):
        at_ns, until_ns = int(seen["time_ns"]), int(following["time_ns"])
        if replica in seen["up"]:
            unnamed_ns = None
        elif seen["brokers"] is None:
            continue
        elif not _names(seen, broker, replica):
            unnamed_ns = at_ns if unnamed_ns is None else unnamed_ns
        elif unnamed_ns is not None and until_ns - at_ns > heard_ns:
            times, ends = (at_ns, at_ns + heard_ns), (node, replica)
            unheard = context.excuses.find("goodbye_lost", *times, None, ends)
            if unheard is None and not _has_lived(context, replica, Span(unnamed_ns, at_ns)):
                detail = f"{replica}: {node} named it again for {seconds(until_ns - at_ns)}, and it was dead"
                yield route_finding(context, "stale_route", at_ns, None, detail)
                return


def _has_lived(context: Context, node: str, span: Span) -> bool:
    """Whether a node that was down at both ends of this span may have been up in between."""
    ups_ns = [of.time_ns for of in context.facts.exits if of.node == node]
    for fault in chain.from_iterable(map(by_target, context.facts.faults)):
        if STOPS in fault.effects and node in fault.targets and fault.bitten_ns is not None:
            ups_ns += [began_ns(fault), healed_ns(fault)]
    return any(span.start_ns <= at_ns <= span.end_ns for at_ns in ups_ns)


def check_switches(columns: Columns, context: Context) -> Verdict:
    """Judge clients that started while some coordinators were broken and others were not."""
    servers = {seen["node"] for seen in context.observations if seen["kind"] == "route"}
    first = _first_success(columns, context)
    switches = [
        (opened, first[opened.process] - opened.time_ns)
        for opened in context.timeline.opens
        if opened.process in first and _needs_switch(context.facts, servers, opened.time_ns)
        if not _breaks_meanwhile(
            context.facts, servers, Span(opened.time_ns, first[opened.process])
        )
    ]
    findings = [
        _slow(context, opened, took_ns) for opened, took_ns in switches if took_ns > SWITCHED_NS
    ]
    slowest_ns = max((took_ns for _, took_ns in switches), default=0)
    counts = {"switches": len(switches), "slowest_switch_ms": slowest_ns // NS_PER_MS}
    return observed_verdict(
        "name_server_switch", findings, counts, None if servers else NOT_OBSERVED
    )


def _first_success(columns: Columns, context: Context) -> dict[int, int]:
    """Return, by process, the time in ns at which it first had a queue or an acknowledgement."""
    acked = columns.sends.where(_first_acks(columns))
    first = dict(zip(acked.process.tolist(), acked.time_ns.tolist(), strict=True))
    for changes in context.timeline.ownership.values():
        for change in changes:
            if change.change == "gained":
                before = first.get(change.process, change.time_ns)
                first[change.process] = min(before, change.time_ns)
    return first


def _first_acks(columns: Columns) -> Ints:
    """Return the row of the first acknowledged send of each process."""
    sends = columns.sends
    rows = np.flatnonzero(sends.outcome == Outcome.OK)
    rows = rows[np.argsort(sends.time_ns[rows], kind="stable")]
    return rows[np.unique(sends.process[rows], return_index=True)[1]]


def first_acknowledged_rows(columns: Columns, _context: Context) -> Columns:
    """Select the first acknowledged send of each process; the checker reads no other rows."""
    return some_rows(columns, sends=_first_acks(columns))


def _needs_switch(facts: RunFacts, servers: set[str], at_ns: int) -> bool:
    """Whether some but not all coordinators were broken at a time, and no other server.

    A fault counts until a registration interval after its heal.
    """
    broken: set[str] = set()
    settled_ns = int(facts.timings.register_s * NS_PER_S)
    brokers = {node for nodes in facts.replica_sets.values() for node in nodes}
    for fault in facts.faults:
        targets = set(fault.targets)
        if fault.bitten_ns is None or (targets and targets.isdisjoint(brokers | servers)):
            continue
        healed_ns = FOREVER_NS if fault.healed_ns is None else fault.healed_ns
        if began_ns(fault) <= at_ns < healed_ns + settled_ns:
            if not targets <= servers or not set(fault.effects) <= BREAKS_SERVERS:
                return False
            broken |= targets
    return bool(broken) and bool(servers - broken)


def _breaks_meanwhile(facts: RunFacts, servers: set[str], waited: Span) -> bool:
    """Whether a fault of a server began while a client waited, within the time that the client has."""
    until_ns = min(waited.end_ns, waited.start_ns + SWITCHED_NS)
    involved = servers | {node for nodes in facts.replica_sets.values() for node in nodes}
    return any(
        fault.bitten_ns is not None
        and waited.start_ns < began_ns(fault) < until_ns
        and not involved.isdisjoint(fault.targets)
        for fault in chain.from_iterable(map(by_target, facts.faults))
    )


def _slow(context: Context, opened: Opened, took_ns: int) -> Finding:
    detail = f"{opened.node} needed {seconds(took_ns)} to its first queue or acknowledgement"
    return route_finding(context, "slow_failover", opened.time_ns, None, detail)


ROUTES = Checker(
    name="routes",
    anomalies=("wrong_route", "stale_route", "missing_route", "departed_route"),
    check=check_routes,
    rows=no_rows,
    applies=lambda context: context.facts.routes_observed,
    needs_observations=True,
)

NAME_SERVER_SWITCH = Checker(
    name="name_server_switch",
    anomalies=("slow_failover",),
    check=check_switches,
    rows=first_acknowledged_rows,
    applies=lambda context: context.facts.routes_observed,
    needs_observations=True,
)
