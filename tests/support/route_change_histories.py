"""Random changes of routes, of the tables of masters and of who runs. All times are whole seconds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from staticfire.checkers.guarantees.facts import FaultFacts, QueuesConfirmed
from tests.support.history_language import fault

BROKERS = {"b": ("n0", "n1"), "c": ("n2",)}
SERVERS = ("ns-1", "ns-2")
QUEUES = ([4, 4, 6], [8, 8, 6], [8, 8, 4], None)
NAMED: dict[str, tuple[dict[str, str], ...]] = {
    "b": ({"0": "n0", "1": "n1"}, {"0": "n0", "1": "n1"}, {"1": "n1"}, {"0": "n0"}, {}),
    "c": ({"0": "n2"}, {"0": "n2"}, {}),
}
ENDS = ("killed", "terminated", "power cut", "unclear")
KINDS = ("pause", "name_server_freeze", "kill", "partition", "disk_lost")
END_S = 260


class Changed(NamedTuple):
    """What a run left behind."""

    faults: tuple[FaultFacts, ...]
    observations: list[dict[str, Any]]
    facts: dict[str, Any]


def route_change_history(seed: int) -> Changed:
    random = Random(seed)
    seen: list[dict[str, Any]] = []
    for broker, nodes in BROKERS.items():
        leader = {"node": nodes[0], "broker_name": broker}
        seen += [
            _seen(second, "topic_table", **leader, topics=_topics(random))
            for second in _seconds(random, random.choice([1, 2, 3, 5]))
        ]
        for node in nodes:
            seen += _lives(random, node)
    for server in SERVERS:
        lives = _lives(random, server)
        seen += lives
        for broker in BROKERS:
            for second in _seconds(random, random.randrange(1, 12)):
                life = [of["life"] for of in lives if of["time_ns"] <= second * 10**9][-1]
                addresses = random.choice(NAMED[broker])
                said = {"broker_name": broker, "addresses": addresses, "topics": _topics(random)}
                seen.append(_seen(second, "route_table", node=server, life=life, **said))
    for server in SERVERS:
        for second in _seconds(random, random.choice([0, 1, 3])):
            seen.append(_seen(second, "topic_removal", node=server, topic=random.choice("tu")))
    seen.append(_seen(END_S, "events"))
    return Changed(
        faults=(*(_fault(random) for _ in range(random.choice([0, 0, 1, 3]))), *_confirmed(random)),
        observations=seen,
        facts={"replica_sets": BROKERS, "route_changes_observed": True},
    )


def _seen(second: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"time_ns": second * 10**9, "kind": kind, **fields}


def _seconds(random: Random, count: int) -> list[int]:
    start = random.choice([0, 0, 20])
    near = random.random() < 0.5
    return sorted(random.sample(range(start, 60 if near else END_S), count))


def _topics(random: Random) -> dict[str, list[int]]:
    drawn = {topic: random.choice(QUEUES[: random.choice([2, 4])]) for topic in "tu"}
    return {topic: list(queues) for topic, queues in drawn.items() if queues is not None}


def _lives(random: Random, node: str) -> list[dict[str, Any]]:
    """Starts and ends of one server, in turn."""
    times = [0, *sorted(random.sample(range(1, END_S), random.choice([0, 0, 1, 2, 4])))]
    return [
        _seen(
            second,
            "server_life",
            node=node,
            life=1 + number // 2,
            ended=random.choice(ENDS) if number % 2 else None,
        )
        for number, second in enumerate(times)
    ]


def _fault(random: Random) -> FaultFacts:
    at_s = random.randrange(END_S - 60)
    healed_s = random.choice([None, at_s + random.choice([1, 10, 60])])
    target = random.choice(["n0", "n1", "n2", *SERVERS])
    bitten = random.random() < 0.8
    return fault(random.choice(KINDS), target, at_s=at_s, healed_s=healed_s, bitten=bitten)


def _confirmed(random: Random) -> Iterator[FaultFacts]:
    """An operator asks for more queues, and some leaders confirm them."""
    for _ in range(random.choice([0, 0, 1, 2])):
        at_s = random.randrange(END_S - 60)
        answers = (
            QueuesConfirmed(
                topic=random.choice("tu"),
                stream=stream,
                queues=random.choice([2, 6, 8]),
                answered_ns=(at_s + random.randrange(20)) * 10**9,
            )
            for stream in random.choice(["b", "c", "bc"])
        )
        yield replace(
            fault("topic_change", at_s=at_s, healed_s=at_s + 30), confirmed=tuple(answers)
        )
