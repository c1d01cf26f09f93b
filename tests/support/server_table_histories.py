"""Random tables of leaders and followers, with starts and faults. All times are whole seconds."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from staticfire.checkers.guarantees.facts import FaultFacts
from tests.support.history_language import fault

BROKERS = {"b": ("n0", "n1"), "c": ("n2",)}
NODES = ("n0", "n1", "n2")
FACTS: dict[str, Any] = {"replica_sets": BROKERS, "tables_observed": True}
GROUPS = ({"g": "usual"}, {"g": "more"}, {"g": "usual", "h": "usual"})
KINDS = ("pause", "kill", "partition", "wiped_slave", "options_change")
END_S = 160


class Changed(NamedTuple):
    """What a run left behind."""

    faults: tuple[FaultFacts, ...]
    observations: list[dict[str, Any]]


def server_table_history(seed: int) -> Changed:
    random = Random(seed)
    seen: list[dict[str, Any]] = []
    for node in NODES:
        starts = [0, *sorted(random.sample(range(1, END_S), random.choice([0, 1, 2])))]
        for number, start in enumerate(starts, start=1):
            seen.append(_seen(start, "server_life", node=node, life=number, ended=None))
            over = (starts[number] if number < len(starts) else END_S) - 1
            emptied = random.random() < 0.2
            for table in ("groups", "delays", "offsets"):
                times = {start, *(random.randrange(start, over + 1) for _ in range(2))}
                seen += [
                    _table(random, second, node, number, table, emptied=emptied)
                    for second in sorted(times)
                ]
            if number < len(starts):
                seen.append(_seen(over, "server_life", node=node, life=number, ended="killed"))
    for _ in range(random.choice([0, 0, 1])):
        copy, own = random.choice(GROUPS), random.choice(GROUPS)
        where = {"node": "n0", "life": 2, "broker_name": "b", "follower": "n1"}
        second = random.randrange(END_S)
        seen.append(_seen(second, "restored_table", **where, table="groups", copy=copy, own=own))
    seen.append(_seen(END_S, "events"))
    faults = tuple(_fault(random) for _ in range(random.choice([0, 0, 1, 2])))
    return Changed(faults, sorted(seen, key=lambda of: of["time_ns"]))


def _table(
    random: Random, second: int, node: str, life: int, table: str, *, emptied: bool
) -> dict[str, Any]:
    changes = random.choice([1, 1, 1, 2]) if table == "groups" else 0
    entries = random.choice(GROUPS) if table == "groups" else {"3": random.choice([0, 0, 4])}
    return _seen(
        second,
        "server_table",
        node=node,
        life=life,
        broker_name="b",
        table=table,
        version=str(changes),
        changes=changes,
        ready=random.random() < 0.8,
        emptied=emptied,
        entries=entries,
    )


def _seen(second: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"time_ns": second * 10**9, "kind": kind, **fields}


def _fault(random: Random) -> FaultFacts:
    at_s = random.randrange(END_S - 40)
    healed_s = at_s + random.choice([1, 10, 30])
    bitten = random.random() < 0.8
    target = random.choice(NODES)
    return fault(random.choice(KINDS), target, at_s=at_s, healed_s=healed_s, bitten=bitten)
