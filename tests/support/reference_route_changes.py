"""Reference for routes at every moment, in plain Python, second by second; no code shared with the checkers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from staticfire.checkers.guarantees.facts import FaultFacts

NS_PER_S = 10**9
HEARD_S, SILENT_S, PAUSE_S = 6, 135, 50
STALLED = ("pause", "name_server_freeze")
Seen = Mapping[str, Any]
Wrong = tuple[str, str, str, str | None, int]  # anomaly, name server, broker, topic, second


def wrong_routes(
    observations: Sequence[Seen], facts: Mapping[str, Any], faults: Sequence[FaultFacts]
) -> list[Wrong]:
    """All that is wrong; of a topic and of the end of a server the first only, for each life of a name server."""
    end_s = max(seen["time_ns"] for seen in observations) // NS_PER_S
    found: list[Wrong] = []
    lives = {(of["node"], of["life"]) for of in _of(observations, "route_table")}
    for broker, nodes in facts["replica_sets"].items():
        for server, life in sorted(lives):
            said = [_said(observations, server, life, broker, s) for s in range(end_s)]
            for second, topic in _drifts(observations, faults, said, server, broker, nodes[0]):
                found.append(("route_drift", server, broker, topic, second))
            for node in nodes:
                seconds = _departed(observations, faults, said, server, node)
                found += [("departed_route", server, broker, None, second) for second in seconds]
    return found


def _of(observations: Sequence[Seen], kind: str) -> list[Seen]:
    found = [seen for seen in observations if seen["kind"] == kind]
    return sorted(found, key=lambda seen: seen["time_ns"])


def _last(observations: Sequence[Seen], second: int) -> Seen | None:
    before = [seen for seen in observations if seen["time_ns"] <= second * NS_PER_S]
    return before[-1] if before else None


def _said(
    observations: Sequence[Seen], server: str, life: int, broker: str, second: int
) -> Seen | None:
    """What this life of a name server says of a broker name; None before it has said anything, and after its end."""
    for of in _of(observations, "server_life"):
        over = of["life"] > life or (of["life"] == life and of["ended"] is not None)
        if of["node"] == server and over and of["time_ns"] <= second * NS_PER_S:
            return None
    mine = [
        of
        for of in _of(observations, "route_table")
        if (of["node"], of["life"], of["broker_name"]) == (server, life, broker)
    ]
    return _last(mine, second)


def _drifts(
    observations: Sequence[Seen],
    faults: Sequence[FaultFacts],
    said: Sequence[Seen | None],
    server: str,
    broker: str,
    leader: str,
) -> Iterator[tuple[int, str]]:
    tables = [of for of in _of(observations, "topic_table") if of["node"] == leader]
    for topic in sorted({topic for of in tables for topic in of["topics"]}):
        has = [_table(tables, topic, second) for second in range(len(said))]
        due = [
            _raised(now, least(faults, topic, broker, leader, second * NS_PER_S))
            for second, now in enumerate(has)
        ]
        removed = [
            of["time_ns"] // NS_PER_S
            for of in _of(observations, "topic_removal")
            if (of["node"], of["topic"]) == (server, topic)
        ]
        lives = [of for of in _of(observations, "server_life") if of["node"] == leader]
        down = {
            second
            for second in range(len(said))
            if (life := _last(lives, second)) is not None and life["ended"] is not None
        }
        seconds = [
            *_backs(said, has, topic, leader),
            *_lates(said, due, topic, leader, faults, server, removed, down),
        ]
        if seconds:
            yield min(seconds), topic


def _table(tables: Sequence[Seen], topic: str, second: int) -> tuple[Any, int] | None:
    """What the leader has of a topic, and since when."""
    now = _last(tables, second)
    if now is None:
        return None
    value, since = now["topics"].get(topic), now["time_ns"]
    for of in reversed(tables):
        if of["time_ns"] > now["time_ns"]:
            continue
        if of["topics"].get(topic) != value:
            break
        since = of["time_ns"]
    return value, since // NS_PER_S


def least(faults: Sequence[FaultFacts], topic: str, broker: str, leader: str, at_ns: int) -> int:
    """How many queues the leader has confirmed and not forgotten with its disk."""
    lost = [
        one
        for one in faults
        if one.kind in ("disk_lost", "wiped_slave") and leader in one.targets
        if one.bitten_ns is not None
    ]
    found = 0
    for one in (answer for fault in faults for answer in fault.confirmed):
        is_forgotten = any(
            (of.fired_ns or 0) <= at_ns
            and (of.healed_ns is None or of.healed_ns >= one.answered_ns)
            for of in lost
        )
        is_asked = (one.topic, one.stream) == (topic, broker) and one.answered_ns <= at_ns
        if is_asked and not is_forgotten:
            found = max(found, one.queues)
    return found


def _raised(now: tuple[Any, int] | None, queues: int) -> tuple[Any, int] | None:
    if now is None or now[0] is None:
        return now
    read, write, permission = now[0]
    return [max(read, queues), max(write, queues), permission], now[1]


def _is_named(of: Seen | None, leader: str) -> bool:
    return of is not None and of["addresses"].get("0") == leader


def _backs(
    said: Sequence[Seen | None],
    has: Sequence[tuple[Any, int] | None],
    topic: str,
    leader: str,
) -> Iterator[int]:
    newest, before = -1, None
    for second, of in enumerate(said):
        if of is None or not _is_named(of, leader):
            continue
        value = of["topics"].get(topic)
        runs = [run for run in has[: second + 1] if run is not None and run[0] == value]
        since = runs[-1][1] if runs else None
        now = has[second]
        changed = before is not None and before["topics"].get(topic) != value
        unlike = now is not None and now[0] is not None and now[0] != value
        if changed and unlike and (since is None or since < newest):
            yield second
            return
        if changed or before is None:
            newest = max(newest, -1 if since is None else since)
        before = of


def _lates(
    said: Sequence[Seen | None],
    has: Sequence[tuple[Any, int] | None],
    topic: str,
    leader: str,
    faults: Sequence[FaultFacts],
    server: str,
    removed: Sequence[int],
    down: Collection[int],
) -> Iterator[int]:
    start, counted = 0, 0
    for second in range(len(said) + 1):
        of, now = (said[second], has[second]) if second < len(said) else (None, None)
        if (
            of is not None
            and _is_named(of, leader)
            and now is not None
            and of["topics"].get(topic) != now[0]
            and (now[0] is not None or any(now[1] <= at <= second for at in removed))
        ):
            struck = any(_strikes(one, {server, leader}, second, HEARD_S) for one in faults)
            counted += not struck and second not in down
            continue
        if counted > HEARD_S:
            yield start
            return
        start, counted = second + 1, 0


def _departed(
    observations: Sequence[Seen],
    faults: Sequence[FaultFacts],
    said: Sequence[Seen | None],
    server: str,
    node: str,
) -> Iterator[int]:
    lives = [of for of in _of(observations, "server_life") if of["node"] == node]
    unheard = partial(_unheard, faults, {server, node})
    for number, of in enumerate(lives):
        if of["ended"] is None:
            continue
        ended_s = of["time_ns"] // NS_PER_S
        next_s = lives[number + 1]["time_ns"] // NS_PER_S if number + 1 < len(lives) else len(said)
        silent = of["ended"] in ("power cut", "unclear")

        def bound_s(start_s: int, ended_s: int = ended_s, silent: bool = silent) -> int:
            again = start_s - ended_s > HEARD_S
            if again:  # what is named anew was held up, and its end comes right behind
                return SILENT_S if unheard(start_s) else HEARD_S
            return SILENT_S if silent or unheard(ended_s) else HEARD_S

        first = _first_longer(said, range(ended_s, next_s), node, server, faults, bound_s)
        if first is not None:
            yield first


def _unheard(faults: Sequence[FaultFacts], nodes: set[str], at_s: int) -> bool:
    return any(
        one.bitten_ns is not None
        and one.kind in (*STALLED, "partition")
        and (one.kind == "partition" or nodes & set(one.targets))
        and (one.fired_ns or 0) // NS_PER_S <= at_s + HEARD_S
        and _healed_s(one) + HEARD_S >= at_s
        for one in faults
    )


def _first_longer(
    said: Sequence[Seen | None],
    seconds: range,
    node: str,
    server: str,
    faults: Sequence[FaultFacts],
    bound_s: Callable[[int], int],
) -> int | None:
    start, counted = seconds.start, 0
    stalls = [one for one in faults if one.kind in STALLED]
    for second in [*seconds, -1]:
        of = said[second] if second >= 0 else None
        if of is not None and node in of["addresses"].values():
            counted += not any(_strikes(one, {server}, second, PAUSE_S) for one in stalls)
            continue
        if counted > bound_s(start):
            return start
        start, counted = second + 1, 0
    return None


def _healed_s(one: FaultFacts) -> int:
    return 10**6 if one.healed_ns is None else one.healed_ns // NS_PER_S


def _strikes(one: FaultFacts, nodes: set[str], second: int, after_s: int) -> bool:
    """Whether a fault that bit struck one of these nodes; of a partition it is not known which links it cut."""
    assert one.fired_ns is not None
    near = one.fired_ns // NS_PER_S <= second < _healed_s(one) + after_s
    struck = one.kind == "partition" or bool(nodes & set(one.targets))
    return one.bitten_ns is not None and near and struck
