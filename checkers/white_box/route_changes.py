"""Routes during the run: coordinators' routes follow the leaders' tables and the ends of servers.

**route_drift**: a coordinator's route differs from the table of the leader that it names. For longer than a
registration takes, it has other numbers of queues, another permission, or no entry for the topic, or it still names a
topic that it has removed and that the leader has not created again. A route that returns to an earlier version of the
leader's table, after the coordinator has already published the later one, is a finding immediately. A leader that has
confirmed more queues to an operator must register them, so its table counts as if it had at least as many
(`checkers/derived/confirmed_queues.py`).
**departed_route**: a coordinator still names a server whose process has ended, for longer than two requests take. If
the coordinator may not have noticed the end of the server's connections, the bound is that for silent servers: 120 s,
which a coordinator checks every 10 s. A coordinator that newly names such a server has received a message that a cut
had delayed, and must learn of the end right after it.
**missing_route** (`routes.py`): the addresses of a replica set in a coordinator's routes differ from those in its list
of the cluster. It reads both from the same table, so no fault excuses a difference.

The harness records every change (`route_table`, `topic_table`, `server_life`), and when a coordinator has answered an
administrator that it removed a topic from the routes of all replica sets (`topic_removal`). The administrator requests
that when all leaders have removed the topic. After that the coordinator may name the topic of a replica set only if its
leader has created it again.

Cannot see: other topics that the leader does not have (only administrators remove them from routes); topics of a
replica set whose leader the coordinator does not name.

Source: RouteInfoManager.registerBroker, onChannelDestroy and unregisterBroker of Apache RocketMQ 4.9.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

from staticfire.checkers.derived.confirmed_queues import (
    confirmed_queues,
    least_queues,
    registered_ns,
)
from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.engine.observed import NOT_OBSERVED
from staticfire.checkers.guarantees.promises import NS_PER_S, judge
from staticfire.checkers.guarantees.verdict import Finding, seconds
from staticfire.checkers.model.intervals import Span, joined, shared, without

EXPIRY_SLACK_S = 15.0  # a coordinator checks every 10 s, and may be slow
# ends of a process without a packet that closes its connections
SILENT_ENDS = ("power cut", "unclear")
Seen = Mapping[str, Any]
Queues = list[int] | None  # read queues, write queues, permission; None: no such topic


class PublishedRoute(NamedTuple):
    """The route of a replica set in one process of a coordinator, in an interval."""

    span: Span
    addresses: Mapping[str, str]
    topics: Mapping[str, list[int]]


class Known(NamedTuple):
    """The entry of a topic in a leader's table, in an interval."""

    span: Span
    queues: Queues
    is_raised: bool = False  # the leader has confirmed more queues than its table has


class Changes:
    """The observations of changes in a run, in order of time."""

    def __init__(self, observations: Sequence[Seen]) -> None:
        ordered = sorted(observations, key=lambda seen: int(seen["time_ns"]))
        self.end_ns = int(ordered[-1]["time_ns"]) if ordered else 0
        # by replica set, then node and life
        self._routes: dict[str, dict[tuple[str, int], list[Seen]]] = {}
        self._tables: dict[str, list[Seen]] = {}  # by leader
        self._lives: dict[str, list[Seen]] = {}  # by server
        self._removals: dict[tuple[str, str], list[int]] = {}  # coordinator and topic -> times
        for seen in ordered:
            match seen["kind"]:
                case "route_table":
                    of_set = self._routes.setdefault(seen["broker_name"], {})
                    of_set.setdefault((seen["node"], seen["life"]), []).append(seen)
                case "topic_table":
                    self._tables.setdefault(seen["node"], []).append(seen)
                case "topic_removal":
                    of_topic = self._removals.setdefault((seen["node"], seen["topic"]), [])
                    of_topic.append(int(seen["time_ns"]))
                case "server_life":
                    self._lives.setdefault(seen["node"], []).append(seen)

    def unobserved(self, context: Context) -> str | None:
        """Return why the observations are incomplete; None if each coordinator and leader was observed."""
        facts = context.facts
        leaders = {nodes[0] for nodes in facts.replica_sets.values() if nodes}
        answered = {node for of_set in self._routes.values() for node, _ in of_set}
        seen = (answered | self._tables.keys()) & self._lives.keys()
        unseen = sorted({*leaders, *facts.coordinators} - seen)
        if unseen:
            return f"{NOT_OBSERVED}: route changes of {', '.join(unseen)}"
        return None if answered and leaders else NOT_OBSERVED

    @property
    def count(self) -> int:
        """The number of changes of coordinators' routes."""
        return sum(len(of) for of_set in self._routes.values() for of in of_set.values())

    def contradictions(self) -> Iterator[Seen]:
        """Yield, by replica set and process of a coordinator, the first answer whose routes and list differ."""
        for _, processes in sorted(self._routes.items()):
            for _, mine in sorted(processes.items()):
                unlike = (
                    seen
                    for seen in mine
                    if seen.get("routed", seen["addresses"]) != seen["addresses"]
                )
                yield from islice(unlike, 1)

    def published(self, broker: str) -> Iterator[tuple[str, list[PublishedRoute]]]:
        """Yield the routes of a replica set in each process of a coordinator, by node, until the process ends."""
        for (node, life), mine in sorted(self._routes.get(broker, {}).items()):
            over_ns = self._over_ns(node, life)
            spans = (
                Span(span.start_ns, min(span.end_ns, over_ns)) for span in _spans(mine, over_ns)
            )
            yield (
                node,
                [
                    PublishedRoute(span, seen["addresses"], seen["topics"])
                    for seen, span in zip(mine, spans, strict=True)
                    if span.length_ns
                ],
            )

    def _over_ns(self, node: str, life: int) -> int:
        ends = (
            int(seen["time_ns"])
            for seen in self._lives.get(node, ())
            if seen["life"] > life or (seen["life"] == life and seen["ended"] is not None)
        )
        return min(ends, default=self.end_ns)

    def down(self, node: str) -> Iterator[tuple[Span, str]]:
        """Yield the intervals in which a server was down after it had run, and how its process had ended."""
        mine = self._lives.get(node, [])
        for seen, span in zip(mine, _spans(mine, self.end_ns), strict=True):
            if seen["ended"] is not None:
                yield span, seen["ended"]

    def removals(self, node: str, topic: str) -> Sequence[int]:
        """Return when the coordinator had removed the topic from the routes of all replica sets, in ns."""
        return self._removals.get((node, topic), ())

    def tables(self, node: str) -> list[tuple[Span, Mapping[str, list[int]]]]:
        """Return the tables that a leader registers, each with the interval until the next one."""
        mine = self._tables.get(node, [])
        spans = _spans(mine, self.end_ns)
        return [(span, seen["topics"]) for seen, span in zip(mine, spans, strict=True)]


def _spans(mine: Sequence[Seen], over_ns: int) -> Iterator[Span]:
    """Yield the interval from each observation to the next one."""
    ends = [*(int(seen["time_ns"]) for seen in mine[1:]), over_ns]
    for seen, end_ns in zip(mine, ends, strict=False):
        yield Span(int(seen["time_ns"]), end_ns)


def drifts(context: Context, changes: Changes) -> Iterator[Finding]:
    """Yield the first `route_drift` of each topic of a replica set in each process of a coordinator."""
    for broker, nodes in sorted(context.facts.replica_sets.items()):
        tables = changes.tables(nodes[0]) if nodes else []
        topics = sorted({topic for _, table in tables for topic in table})
        known = {topic: _known(tables, topic) for topic in topics}
        for node, published in changes.published(broker):
            down = [span for span, _ in changes.down(nodes[0])]  # back, it registers
            excused = joined([*context.excuses.spans("route_drift", None, (node, nodes[0])), *down])
            named = [one for one in published if one.addresses.get("0") == nodes[0]]
            for topic in topics:
                asked = _raised(
                    context, _asked(known[topic], changes.removals(node, topic)), topic, broker
                )
                wrongs = (
                    *_gone_back(named, known[topic], topic),
                    *_too_late(context, named, asked, topic, excused),
                )
                for at_ns, words in sorted(wrongs, key=itemgetter(0))[:1]:
                    detail = f"{node}: {words}"
                    yield route_finding(context, "route_drift", at_ns, broker, detail, topic)


def _known(tables: Sequence[tuple[Span, Mapping[str, list[int]]]], topic: str) -> list[Known]:
    found: list[Known] = []
    for span, table in tables:
        queues = table.get(topic)
        if found and found[-1].queues == queues:
            found[-1] = Known(Span(found[-1].span.start_ns, span.end_ns), queues)
        else:
            found.append(Known(span, queues))
    return found


def _asked(known: Sequence[Known], removals: Sequence[int]) -> list[Known]:
    """Return the intervals in which a coordinator must name a leader's entry, or no topic after its removal."""
    found = [of for of in known if of.queues is not None]
    for of in known:
        if of.queues is None:
            since = (at_ns for at_ns in removals if of.span.start_ns <= at_ns < of.span.end_ns)
            start_ns = min(since, default=of.span.end_ns)
            found.append(Known(Span(start_ns, of.span.end_ns), None))
    return sorted(found, key=lambda of: of.span)


def _raised(context: Context, asked: Sequence[Known], topic: str, broker: str) -> list[Known]:
    """Return the same, with at least as many queues as the leader had confirmed at each time."""
    cuts = sorted({at_ns for one in confirmed_queues(context) for at_ns in one.span})
    found: list[Known] = []
    for of in asked:
        inside = [at_ns for at_ns in cuts if of.span.start_ns < at_ns < of.span.end_ns]
        for start_ns, end_ns in pairwise([of.span.start_ns, *inside, of.span.end_ns]):
            least = least_queues(context, topic, broker, start_ns)
            queues, is_raised = of.queues, of.queues is not None and min(of.queues[:2]) < least
            if queues is not None and is_raised:
                queues = [max(number, least) for number in queues[:2]] + queues[2:]
            found.append(Known(Span(start_ns, end_ns), queues, is_raised))
    return found


def _gone_back(
    published: Sequence[PublishedRoute], known: Sequence[Known], topic: str
) -> Iterator[tuple[int, str]]:
    """Yield the first change to an entry that the leader had before the published one, or that it never had."""
    newest_ns = -1  # the time at which the leader got the newest published entry
    before: Queues | None = None
    is_first = True
    for one in published:
        queues, at_ns = one.topics.get(topic), one.span.start_ns
        if queues == before and not is_first:
            continue
        past = [of for of in known if of.span.start_ns <= at_ns]
        since_ns = max((of.span.start_ns for of in past if of.queues == queues), default=None)
        differs = bool(past) and past[-1].queues not in (None, queues)
        is_back = differs and (since_ns is None or since_ns < newest_ns)
        if not is_first and is_back:
            what = "never had" if since_ns is None else "had before"
            has = _words(past[-1].queues)
            yield at_ns, f"says {_words(queues)}, which the leader {what}; it has {has}"
            return
        newest_ns = max(newest_ns, -1 if since_ns is None else since_ns)
        before, is_first = queues, False


def _too_late(
    context: Context,
    published: Sequence[PublishedRoute],
    asked: Sequence[Known],
    topic: str,
    excused: Sequence[Span],
) -> Iterator[tuple[int, str]]:
    wrong = [
        span
        for one in published
        for of in asked
        if of.queues != one.topics.get(topic)
        for span in shared([one.span], [of.span])
    ]
    bound_ns = registered_ns(context.facts)
    for span in without(wrong, ()):
        length_ns = sum(piece.length_ns for piece in without([span], excused))
        if length_ns > bound_ns:
            first = next(one for one in published if one.span.end_ns > span.start_ns)
            last = next(of for of in reversed(asked) if of.span.start_ns < span.end_ns)
            gone = "none since it was removed"
            has, says = _words(last.queues, gone), _words(first.topics.get(topic))
            what = "has confirmed" if last.is_raised else "has"
            yield (
                span.start_ns,
                f"for {seconds(length_ns)} not what the leader {what}: {says}, not {has}",
            )
            return


def departures(context: Context, changes: Changes) -> Iterator[Finding]:
    """Yield one `departed_route` for each process of a coordinator and each end of a server."""
    for broker, nodes in sorted(context.facts.replica_sets.items()):
        ends = [(server, down, ended) for server in nodes for down, ended in changes.down(server)]
        for node, published in changes.published(broker) if ends else ():
            stood_still = context.excuses.spans("departed_route", None, (node,))
            for server, down, ended in ends:
                named = (one.span for one in published if server in one.addresses.values())
                for span in shared(named, [down]):
                    bound_s = _stay_s(
                        context, node, server, Span(down.start_ns, span.start_ns), ended
                    )
                    length_ns = sum(piece.length_ns for piece in without([span], stood_still))
                    if length_ns > bound_s * NS_PER_S:
                        how = f"for {seconds(length_ns)} after its process ended ({ended})"
                        detail = f"{server}: {node} named it {how}"
                        yield route_finding(
                            context, "departed_route", span.start_ns, broker, detail
                        )
                        break


def contradictions(context: Context, changes: Changes) -> Iterator[Finding]:
    """Yield one `missing_route` for each process of a coordinator and replica set whose routes and list differ."""
    for seen in changes.contradictions():
        broker, routed, listed = seen["broker_name"], seen["routed"], seen["addresses"]
        detail = f"{seen['node']}: its routes name {_nodes(routed)}, its list of the cluster {_nodes(listed)}"
        yield route_finding(context, "missing_route", int(seen["time_ns"]), broker, detail)


def _stay_s(context: Context, node: str, server: str, before: Span, ended: str) -> float:
    """Return how long a coordinator may name a server that has ended, in seconds.

    `before`: from the end of the server until the coordinator named it. A coordinator can learn of a server that has
    already ended only from a message that a cut had delayed, and the end of the connection follows right after it.
    """
    timings = context.facts.timings
    heard_s = 2 * timings.request_s
    silent_s = timings.channel_expiry_s + EXPIRY_SLACK_S
    is_named_again = before.length_ns > heard_s * NS_PER_S
    if ended in SILENT_ENDS and not is_named_again:
        return silent_s
    since_ns = before.end_ns if is_named_again else before.start_ns
    until_ns = since_ns + int(heard_s * NS_PER_S)
    unheard = context.excuses.find("goodbye_lost", since_ns, until_ns, None, (node, server))
    return silent_s if unheard is not None else heard_s


def _nodes(addresses: Mapping[str, str]) -> str:
    return ", ".join(f"{node} as {number}" for number, node in addresses.items()) or "nothing"


def _words(queues: Queues, none: str = "no such topic") -> str:
    if queues is None:
        return none
    read, write, permission = queues
    return f"{read} read queues, {write} write queues, permission {permission}"


def route_finding(
    context: Context,
    anomaly: str,
    time_ns: int,
    broker: str | None,
    detail: str,
    topic: str | None = None,
) -> Finding:
    return Finding(
        anomaly=anomaly,
        judgement=judge(context.facts.mode, anomaly),
        op_index=-1,
        time_ns=time_ns,
        detail=detail,
        topic=topic,
        broker=broker,
    )
