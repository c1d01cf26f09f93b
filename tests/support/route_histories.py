"""Random answers of name servers, and clients that start meanwhile. All times are whole seconds."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.model.history import Op
from tests.support.history_language import fault

BROKERS = {"b": ("n0", "n1"), "c": ("n2",)}
SERVERS = ("ns-1", "ns-2")
NODES = ("n0", "n1", "n2")
RIGHT = {"b": {"0": "n0", "1": "n1"}, "c": {"0": "n2"}}
WRONG: tuple[dict[str, dict[str, str]] | None, ...] = (
    None,
    {},
    {"b": {"0": "n0"}, "c": {"0": "n2"}},
    {"b": {"0": "n1", "1": "n0"}, "c": {"0": "n2"}},
    {"b": {"0": "n0", "1": "n1", "2": "n9"}, "d": {"0": "n2"}},
)
KINDS = ("name_server_freeze", "name_server_amnesia", "kill", "client_crash")


class SelectedRows(NamedTuple):
    """What a run left behind."""

    ops: list[Op]
    faults: tuple[FaultFacts, ...]
    observations: list[dict[str, Any]]
    facts: dict[str, Any]


def route_history(seed: int) -> SelectedRows:
    random = Random(seed)
    seen = [
        {
            "kind": "route",
            "time_ns": second * 10**9,
            "node": node,
            "brokers": random.choice([RIGHT, RIGHT, *WRONG]),
            "up": list(NODES) if random.random() < 0.5 else random.sample(NODES, 2),
        }
        for node in SERVERS
        for second in random.choices(range(600), k=random.randrange(1, 9))
    ]
    random.shuffle(seen)
    faults = []
    for _ in range(random.randrange(4)):
        at_s = random.randrange(500)
        healed_s = random.choice([None, at_s + random.choice([1, 10, 60, 200])])
        kind = random.choice(KINDS)
        target = random.choice(SERVERS if kind.startswith("name_server") else ("n0", "n2", "c1"))
        bitten = random.random() < 0.8
        faults.append(fault(kind, target, at_s=at_s, healed_s=healed_s, bitten=bitten))
    facts = {
        "replica_sets": BROKERS,
        "routes_observed": True,
        "topics_everywhere": random.random() < 0.5,
    }
    ops = _clients(random)
    seen += [_after_the_drain(random) for _ in range(random.choice([0, 0, 1, 3]))]
    return SelectedRows(ops, tuple(faults), seen, facts)


def _after_the_drain(random: Random) -> dict[str, Any]:
    """The route of a topic, and which running brokers it lacked."""
    broker = random.choice("bc")
    unnamed = [node for node in BROKERS[broker] if random.random() < 0.5]
    return {
        "kind": "topic_route",
        "time_ns": random.choice([650, 680]) * 10**9,
        "node": random.choice(SERVERS),
        "broker_name": broker,
        "topic": random.choice("tu"),
        "route": [4, 4, 6],
        "master": [4, 4, 6],
        **({"unnamed": unnamed} if unnamed else {}),
    }


def _clients(random: Random) -> list[Op]:
    """Each opens, and later is given a queue or an acknowledgement, or never."""
    found: list[tuple[int, int, str, dict[str, Any], str | None]] = []
    for process in range(random.randrange(12)):
        at_s = random.randrange(500)
        found.append((at_s, process, "open", {}, f"node-{process}"))
        after_s = at_s + random.choice([1, 5, 10, 11, 30])
        what = random.choice(["send", "assign", "both", "nothing"])
        if what in ("send", "both"):
            place = {"broker": "b", "queue": 0, "queue_offset": process, "physical_offset": process}
            value = {"key": f"p{process}-0", "topic": "t", **place}
            found.append((after_s, process, "send", value, None))
        if what in ("assign", "both"):
            later_s = after_s + random.choice([0, 3])
            value = {"group": "g", "topic": "t", "queues": [["b", 0]]}
            found.append((later_s, process, "assign", value, None))
    found.sort(key=lambda step: step[:3])
    return [
        Op(
            index=index,
            time_ns=second * 10**9,
            process=process,
            type="ok",
            f=f,
            value=value,
            node=node,
        )
        for index, (second, process, f, value, node) in enumerate(found)
    ]
