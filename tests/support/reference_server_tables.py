"""Reference for tables of servers, in plain Python, second by second; no code shared with the checkers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from staticfire.checkers.guarantees.facts import FaultFacts

NS_PER_S = 10**9
BOUND_S, WRITTEN_S, AFTER_S = 13, 5, 12
AWAY = ("pause", "kill", "partition", "wiped_slave")
Seen = Mapping[str, Any]
Wrong = tuple[str, str, str, int]  # anomaly, replica set, server, second


def wrong_tables(
    observations: Sequence[Seen], facts: Mapping[str, Any], faults: Sequence[FaultFacts]
) -> list[Wrong]:
    """All that is wrong; of what a follower does not copy the first only, for each table."""
    end_s = max(seen["time_ns"] for seen in observations) // NS_PER_S
    found: list[Wrong] = []
    for seen in observations:
        second = seen["time_ns"] // NS_PER_S
        if seen["kind"] == "restored_table" and _less(seen["own"], seen["copy"]):
            found.append(("table_lost", seen["broker_name"], seen["node"], second))
    for broker, (leader, *followers) in facts["replica_sets"].items():
        mine = _of(observations, leader, "groups")
        for before, after in pairwise(mine):
            if before["life"] == after["life"] or after["emptied"]:
                continue
            is_same = before["changes"] == after["changes"]
            if after["changes"] < before["changes"] or (
                is_same and _less(after["entries"], before["entries"])
            ):
                found.append(("table_lost", broker, leader, after["time_ns"] // NS_PER_S))
        for follower in followers:
            for table in ("groups", "delays", "offsets"):
                since = _first_uncopied(observations, faults, leader, follower, table, end_s)
                if since is not None:
                    found.append(("table_uncopied", broker, follower, since))
    return found


def _first_uncopied(
    observations: Sequence[Seen],
    faults: Sequence[FaultFacts],
    leader: str,
    follower: str,
    table: str,
    end_s: int,
) -> int | None:
    """The first second from which an entry, or more progress, is missing for too long."""
    bound_s = BOUND_S + WRITTEN_S if table == "offsets" else BOUND_S
    wants = {
        (name, value)
        for seen in _of(observations, leader, table)
        for name, value in {**seen["entries"], "": seen["version"]}.items()
    }
    found: list[int] = []
    for name, value in wants:
        lasts = 0
        for second in range(end_s + 1):
            its = _now(observations, leader, table, second)
            own = _now(observations, follower, table, second)
            is_missing = (
                second < end_s
                and its is not None
                and own is not None
                and not _excused(faults, second, leader, follower)
                and not _less({**its["entries"], "": its["version"]}, {name: value})
                and _less({**own["entries"], "": own["version"]}, {name: value})
            )
            if not is_missing and lasts > bound_s:
                found.append(second - lasts)
            lasts = lasts + 1 if is_missing else 0
    return min(found, default=None)


def _of(observations: Sequence[Seen], node: str, table: str) -> list[Seen]:
    tables = [of for of in observations if of["kind"] == "server_table"]
    return [of for of in tables if of["node"] == node and of["table"] == table]


def _now(observations: Sequence[Seen], node: str, table: str, second: int) -> Seen | None:
    """What a server has, if it runs and is ready."""
    lives = [of for of in observations if of["kind"] == "server_life" and of["node"] == node]
    past = [of for of in lives if of["time_ns"] <= second * NS_PER_S]
    if past and past[-1]["ended"] is not None:
        return None
    tables = [of for of in _of(observations, node, table) if of["time_ns"] <= second * NS_PER_S]
    return tables[-1] if tables and tables[-1]["ready"] else None


def _excused(faults: Sequence[FaultFacts], second: int, *nodes: str) -> bool:
    for of in faults:
        is_near = of.kind == "partition" or set(of.targets) & set(nodes)  # it may cut any pair
        if of.kind in AWAY and of.bitten_ns is not None and is_near:
            since = of.bitten_ns if of.fired_ns is None else of.fired_ns
            until = of.healed_ns
            assert until is not None
            if since <= second * NS_PER_S < until + AFTER_S * NS_PER_S:
                return True
    return False


def _less(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    for name, value in wanted.items():
        if isinstance(value, int):
            if found.get(name, -1) < value:
                return True
        elif found.get(name) != value:
            return True
    return False
