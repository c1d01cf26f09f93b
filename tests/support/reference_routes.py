"""Reference for routes, in plain Python, second by second; no code shared with the checkers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.model.history import Op

NS_PER_S = 10**9
GHOST_S, MISSING_S = 150, 45
AFTERMATH_S = 30
ENDS = ("kill", "power_cut", "name_server_amnesia")
DEAF = ("pause", "partition", "name_server_freeze")
END_S = 700
Seen = Mapping[str, Any]
Wrong = tuple[str, str, str, int]  # anomaly, name server, the node that it is about, from when on


def wrong_answers(
    observations: Sequence[Seen], facts: Mapping[str, Any], faults: Sequence[FaultFacts]
) -> Counter[Wrong]:
    found: set[Wrong] = set()
    # Of the routes of several topics that lack a broker after the drain, one counts.
    lacking: dict[tuple[str, str], int] = {}
    for compared in observations:
        for node in compared.get("unnamed", ()):
            lacking.setdefault((compared["node"], node), compared["time_ns"] // NS_PER_S)
    observations = [seen for seen in observations if seen["kind"] == "route"]
    for server in {seen["node"] for seen in observations}:
        found |= set(_wrong(server, observations, facts))
        said = _by_second(server, observations)
        for broker, nodes in facts["replica_sets"].items():
            for node in nodes:
                ghost, missing = [], []
                for second, seen in enumerate(said):
                    named = (
                        seen is not None
                        and node in (seen["brokers"] or {}).get(broker, {}).values()
                    )
                    up = seen is not None and node in seen["up"]
                    answered = seen is not None and seen["brokers"] is not None
                    known = second >= _known_since(broker, observations, facts)
                    ghost.append(named and not up)
                    missing.append(answered and up and not named and known)
                for anomaly, held, nodes, bound_s in (
                    ("stale_route", ghost, {server}, GHOST_S),
                    ("missing_route", missing, {server, node}, MISSING_S),
                ):
                    deaf = [any(_is_deaf(of, nodes, s) for of in faults) for s in range(END_S)]
                    start = _first_longer(held, deaf, bound_s)
                    if start is not None:
                        found.add((anomaly, server, node, start))
            for node in nodes:
                if not any(of[:3] == ("stale_route", server, node) for of in found):
                    found |= _named_again(server, broker, node, observations, faults)
    wrongs = Counter(found)
    wrongs.update(("missing_route", *of, second) for of, second in lacking.items())
    return wrongs


def _named_again(
    server: str,
    broker: str,
    node: str,
    observations: Sequence[Seen],
    faults: Sequence[FaultFacts],
) -> set[Wrong]:
    """A broker that was dead and not named is named for more than 6 s, and nothing says that it has lived since."""
    mine = sorted((of for of in observations if of["node"] == server), key=lambda of: of["time_ns"])
    gone: int | None = None
    for seen, following in pairwise(mine):
        at, until = seen["time_ns"] / NS_PER_S, following["time_ns"] / NS_PER_S
        named = node in (seen["brokers"] or {}).get(broker, {}).values()
        if node in seen["up"]:
            gone = None
        elif seen["brokers"] is not None and not named:
            gone = seen["time_ns"] if gone is None else gone
        elif named and gone is not None and until - at > 6:
            lived = any(
                gone <= moment <= seen["time_ns"]
                for of in faults
                if node in of.targets and of.kind in ENDS and of.bitten_ns is not None
                for moment in (of.fired_ns or 0, of.healed_ns or 0)
            )
            unheard = any(
                of.kind in DEAF
                and of.bitten_ns is not None
                and (of.kind == "partition" or set(of.targets) & {server, node})
                and (of.fired_ns or 0) <= (at + 6) * NS_PER_S
                and (of.healed_ns or END_S * NS_PER_S) >= (at - 6) * NS_PER_S
                for of in faults
            )
            if not lived and not unheard:
                return {("stale_route", server, node, int(at))}
    return set()


def _wrong(server: str, observations: Sequence[Seen], facts: Mapping[str, Any]) -> Iterator[Wrong]:
    """Each wrong address once, from the first answer on that contained it."""
    first: dict[tuple[str, str, str], int] = {}
    for seen in observations:
        for broker, addresses in (seen["brokers"] or {}).items():
            for number, node in addresses.items():
                right = (
                    dict(enumerate(facts["replica_sets"].get(broker, ()))).get(int(number)) == node
                )
                if seen["node"] == server and not right:
                    second = seen["time_ns"] // NS_PER_S
                    which = broker, number, node
                    first[which] = min(second, first.get(which, second))
    for (broker, number, node), second in first.items():
        yield "wrong_route", server, f"{node} is number {number} of {broker}", second


def _by_second(server: str, observations: Sequence[Seen]) -> list[Seen | None]:
    """The answer that counts in each second; None before the first and after the last."""
    mine = [seen for seen in observations if seen["node"] == server]
    last = max(seen["time_ns"] for seen in mine)
    said: list[Seen | None] = []
    for second in range(END_S):
        before = [seen for seen in mine if seen["time_ns"] <= second * NS_PER_S]
        newest = max((seen["time_ns"] for seen in before), default=None)
        of_newest = [seen for seen in before if seen["time_ns"] == newest]
        said.append(of_newest[-1] if of_newest and second * NS_PER_S < last else None)
    return said


def _active(fault: FaultFacts, second: int) -> bool:
    assert fault.fired_ns is not None
    healed_s = END_S if fault.healed_ns is None else fault.healed_ns // NS_PER_S
    return fault.fired_ns // NS_PER_S <= second < healed_s + AFTERMATH_S


def _known_since(broker: str, observations: Sequence[Seen], facts: Mapping[str, Any]) -> int:
    if facts["topics_everywhere"]:
        return 0
    named = [seen["time_ns"] for seen in observations if broker in (seen["brokers"] or {})]
    return int(min(named)) // NS_PER_S if named else END_S


def _first_longer(held: Sequence[bool], deaf: Sequence[bool], bound_s: int) -> int | None:
    """Where the first range begins that has more seconds than the bound, without those that do not count."""
    start = counted = 0
    for second, holds in enumerate([*held, False]):
        if holds:
            counted += not deaf[second]
        else:
            if counted > bound_s:
                return start
            start, counted = second + 1, 0
    return None


def _is_deaf(fault: FaultFacts, nodes: set[str], second: int) -> bool:
    """Whether a fault kept one of these nodes from hearing or being heard; two requests wait for an answer then."""
    assert fault.fired_ns is not None
    healed_s = END_S if fault.healed_ns is None else fault.healed_ns // NS_PER_S
    is_near = fault.fired_ns // NS_PER_S <= second < healed_s + 6
    everywhere = fault.kind == "partition"  # the facts do not name its links
    struck = everywhere or bool(nodes & set(fault.targets))
    return fault.bitten_ns is not None and is_near and struck


def switches(
    ops: Sequence[Op], observations: Sequence[Seen], faults: Sequence[FaultFacts]
) -> list[int]:
    """How many seconds each client waited that had to turn to another name server."""
    servers = {seen["node"] for seen in observations if seen["kind"] == "route"}
    waits = []
    for op in ops:
        got = [
            later.time_ns - op.time_ns
            for later in ops
            if later.process == op.process and later.f in ("send", "assign")
        ]
        broken: set[str] = set()
        others = False
        for fault in faults:
            known = fault.bitten_ns is not None and not set(fault.targets) & {"c1"}
            if known and _active(fault, op.time_ns // NS_PER_S):
                if fault.kind in ("name_server_freeze", "name_server_amnesia"):
                    broken |= set(fault.targets)
                else:
                    others = True
            began_ns = fault.bitten_ns if fault.fired_ns is None else fault.fired_ns
            until_ns = min([op.time_ns + 10 * NS_PER_S, *(op.time_ns + wait for wait in got)])
            if known and began_ns is not None:
                others |= op.time_ns < began_ns < until_ns
        if op.f == "open" and got and broken and not others and broken < servers:
            waits.append(min(got) // NS_PER_S)
    return waits
