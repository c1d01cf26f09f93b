"""Random runs of which the harness has seen everything: disks at each acknowledgement, logs and queues after the run.

Two brokers, one with a slave; what was seen is drawn without regard to what happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from staticfire.checkers.guarantees.facts import FaultFacts, NodeExit, QueuesConfirmed
from staticfire.checkers.model.history import Op
from tests.support.history_builder import HistoryBuilder
from tests.support.history_language import fault

GROUPS = {"g": ("t",), "h": ("t", "u")}
BROKERS = {"b": ("n0", "n1"), "c": ("n2",)}
NODES = ("n0", "n1", "n2")
PAUSES_NS = [0, *[10**6] * 6, 10**9, 12 * 10**9, 40 * 10**9]
DESTRUCTIVE = ("kill", "power_cut", "failing_disk", "disk_lost", "wiped_slave")
KINDS = (*DESTRUCTIVE, "disk_lost", "disk_lost", "partition", "disk_full", "split_name_servers")
WEAK = ("FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")
ENDS = ["ok", "ok", "ok", "weak", "weak", "weak by status", "unclear", "fail"]


class Observed(NamedTuple):
    """What a run left behind."""

    ops: list[Op]
    observations: list[dict[str, Any]]
    facts: dict[str, Any]


class _Run(HistoryBuilder):
    """Ops so far, and sends that have not ended."""

    def __init__(self, random: Random) -> None:
        super().__init__(random, PAUSES_NS)
        self._open: list[dict[str, Any]] = []

    def op(self, type: str, f: str, value: dict[str, Any], error: str | None = None) -> None:
        self.pause()
        self.add(0 if f == "send" else 9, type, f, value, error=error)

    def send(self) -> None:
        value = {"key": f"p0-{len(self.ops)}", "topic": self._random.choice("tu")}
        self.op("invoke", "send", dict(value))
        self._open.append(value)
        if self._random.random() < 0.5:
            self.finish()

    def finish(self) -> None:
        if not self._open:
            return
        random = self._random
        value = self._open.pop(random.randrange(len(self._open)))
        end = random.choice(ENDS)
        if end not in ("fail", "unclear"):
            offset = len(self.ops)
            value |= {
                "broker": random.choice("bbbccd"),
                "queue": 0,
                "attempts": 1,
            }  # d is unknown
            value |= {"queue_offset": offset, "physical_offset": 100 * offset}
        if end == "weak by status":
            value["status"] = random.choice(WEAK)
        types = {"fail": ("fail", None), "unclear": ("info", "timeout")}
        types["weak"] = "info", random.choice(WEAK)
        type_, error = types.get(end, ("ok", None))
        self.op(type_, "send", value, error)

    def probe(self) -> None:
        type_ = self._random.choice(["ok", "ok", "ok", "fail", "info", "invoke"])
        error = None if type_ in ("ok", "invoke") else "timeout"
        self.op(type_, "probe", {"broker": self._random.choice("bcd")}, error)

    def drain(self) -> None:
        random = self._random
        group = random.choice(sorted(GROUPS))
        ends = [
            [broker, queue, 0, end, max(0, end + random.choice([0, 0, 0, 1, -1]))]
            for broker in "bc"
            for queue in range(2)
            for end in [random.randrange(5)]
        ]
        value = {"group": group, "topic": random.choice(GROUPS[group]), "queues": ends, "lag": 2}
        aside = Random(repr(value))
        if aside.random() < 0.7:
            reported = [[broker, queue, aside.randrange(6)] for broker, queue, *_ in ends]
            scope = {"group": group, "topic": value["topic"]}
            self.add(9, "ok", "commit", scope | {"offsets": reported})
        self.op(random.choice(["ok", "ok", "ok", "info", "fail", "invoke"]), "drain", value)

    def look_up(self) -> None:
        random = self._random
        found = [
            [f"p0-{number}", random.randrange(2), number, *(random.random() < 0.8 for _ in "kiq")]
            for number in range(random.randrange(5))
        ]
        indexed = random.random() < 0.7
        value = {"topic": "t", "broker": random.choice("bc"), "indexed": indexed, "messages": found}
        if random.random() < 0.2:
            value["torn"] = [[f"p0-{random.randrange(9)}", 0, random.randrange(9), "it ends early"]]
        aside = Random(repr(value))  # so that nothing else is drawn otherwise
        if aside.random() < 0.3:
            times = (aside.choice([700, 700, 701]) for _ in "sb")
            value["searched"] = [["p0-0", 0, aside.randrange(9), 700, 5, *times]]
        if aside.random() < 0.4:
            place = aside.choice(found)[:3] if found else ["p0-1", 1, aside.randrange(9)]
            value["refused"] = [[*place, "code 1"]]
        answered = random.random() < 0.8
        self.op("ok" if answered else "info", "look_up", value, None if answered else "timeout")


def observed_history(seed: int) -> Observed:
    random = Random(seed)
    run = _Run(random)
    for _ in range(random.randrange(30)):
        random.choice([run.send, run.send, run.finish])()
    for _ in range(random.randrange(12)):
        random.choice([run.probe, run.drain, run.drain, run.look_up])()
    times_ns = [op.time_ns for op in run.ops] or [0]
    seen = [
        *_acknowledged(
            random,
            [op.value["key"] for op in run.ops if op.type == "invoke" and op.f == "send"],
            times_ns,
        ),
        *(_compared(random) for _ in range(random.randrange(4))),
        *(_queues_read(random) for _ in range(random.randrange(4))),
        *(_route_compared(random) for _ in range(random.randrange(5))),
    ]
    random.shuffle(seen)
    seen += _measured(Random(f"{seed}/resources"))
    seen += _errors(Random(f"{seed}/errors"))
    seen.append({"kind": "events", "time_ns": 9, "log": {}, "history": {}})
    known = _facts(random, times_ns)
    known["faults"] += (_queues_confirmed(Random(f"{seed}/confirmed")),)
    return Observed(run.ops, seen, known)


def _facts(random: Random, times_ns: Sequence[int]) -> dict[str, Any]:
    flush = random.choice(["sync", "async"])
    faults = [_fault(random, times_ns) for _ in range(random.choice([0, 0, 1, 3, 6]))]
    soon_after_ns = [(of.healed_ns or 0) + random.choice([1, 12]) * 10**9 for of in faults]
    return {
        "flush": flush,
        "replication": random.choice(["none", "async", "sync"]),
        "mode": random.choice(["hardened", "hardened", "faithful"]),
        "follower_behind_max_bytes": random.choice([100, 100, 200, 1000, 256 << 20]),
        "transient_pool": flush == "async" and random.random() < 0.4,
        "groups": GROUPS,
        "topics": ("t", "u"),
        "replica_sets": BROKERS,
        "topic_routes_observed": True,
        "resources_observed": True,
        "errors_observed": True,
        "coordinators": ("ns-1",),
        "living": random.choice([None, None, ("b",)]),
        "faults": tuple(faults),
        "exits": tuple(
            NodeExit(
                node=random.choice(NODES),
                time_ns=random.choice([*times_ns, *soon_after_ns]),
                error="OSError",
            )
            for _ in range(random.choice([0, 0, 1, 4]))
        ),
    }


def _fault(random: Random, times_ns: Sequence[int]) -> FaultFacts:
    at_s = random.choice(times_ns) / 1e9 - random.choice([-30, 0, 0.0005, 0.0015, 5, 8, 20, 25, 40])
    kind = random.choice(KINDS)
    lasting = kind == "disk_lost" or random.random() < 0.1
    healed_s = None if lasting else at_s + random.choice([0, 0.001, 1, 1, 20, 60])
    struck = random.sample(NODES, random.choice([1, 1, 2, 3]))
    of = fault(kind, *struck, at_s=at_s, healed_s=healed_s, bitten=random.random() < 0.7)
    return replace(of, permanent=kind == "disk_lost")


def _queues_confirmed(random: Random) -> FaultFacts:
    """What leaders have confirmed to an operator, who does nothing else."""
    answers = (
        QueuesConfirmed(
            topic=random.choice("tu"),
            stream=random.choice("bc"),
            queues=random.choice([4, 6, 8]),
            answered_ns=random.choice([-(10**10), 0, 10**10]),
        )
        for _ in range(random.choice([0, 0, 1, 3]))
    )
    asked = fault("topic_change", at_s=-20, healed_s=20)
    return replace(asked, affects=(), confirmed=tuple(answers))


def _acknowledged(
    random: Random, keys: Sequence[str], times_ns: Sequence[int]
) -> list[dict[str, Any]]:
    """What disks and caches held; mostly once a message, and sometimes of one without a send."""
    reported = [key for key in keys for _ in range(random.choice([0, 1, 1, 1, 1, 2]))]
    return [_holders(random, key, times_ns) for key in [*reported, *random.choice([[], ["p7-7"]])]]


def _holders(random: Random, key: str, times_ns: Sequence[int]) -> dict[str, Any]:
    machines = random.choice(
        [["disk"], ["disk", "cache"], ["cache", "nothing", "unseen"], ["nothing"], ["nothing"]]
    )
    held = {node: random.choice(machines) for node in NODES}
    names = {"disk": "durable_on", "cache": "cached_on", "unseen": "unobserved"}
    found: dict[str, list[str]] = {name: [] for name in names.values()}
    for node, where in held.items():
        if where in names and (node != "n2" or random.random() < 0.2):
            found[names[where]].append(node)
    status = random.choice(["SEND_OK", *WEAK, "SLAVE_NOT_AVAILABLE", "SLAVE_NOT_AVAILABLE"])
    early = status == "SEND_OK"
    return {
        "kind": "ack_durability",
        "time_ns": times_ns[0] if early else random.choice(times_ns),
        "key": key,
        "status": status,
        "broker_name": random.choice("bbbc"),
        "end_offset": random.choice([None, 100, 200] if early else [None, 200, 300, 400, 1200]),
        **found,
    }


def _compared(random: Random) -> dict[str, Any]:
    broker, master, slave = random.choice([("b", "n0", "n1"), ("b", "n1", "n0"), ("c", "n2", "n3")])
    return {
        "kind": "replica",
        "time_ns": random.randrange(10**9),
        "broker_name": broker,
        "master": master,
        "slave": slave,
        "master_end": random.choice([100, 200]),
        "slave_end": random.choice([100, 200]),
        "first_difference": random.choice([None, None, None, 0, 70]),
    }


def _queues_read(random: Random) -> dict[str, Any]:
    node = random.choice([*NODES, "n2", "n2"])
    holes, wrong = (
        [
            ["t", random.randrange(2), random.randrange(9)]
            for _ in range(random.choice([0, 0, 0, 1, 2]))
        ]
        for _ in range(2)
    )
    return {
        "kind": "queue_entries",
        "time_ns": random.randrange(10**9),
        "node": node,
        "broker_name": "c" if node == "n2" else "b",
        "entries": random.randrange(10),
        "holes": len(holes),
        "hole_at": holes,
        "wrong": len(wrong),
        "wrong_at": wrong,
        "missing": random.choice([None, 0, 0, 0, 3]),
    }


def _measured(random: Random) -> Iterator[dict[str, Any]]:
    """What servers held: of nearly all of them before and after, seldom more than once."""
    for node in ("ns-1", *NODES):
        for when in ("begin", "end", "end")[: random.choice([3, 2, 2, 2, 2, 2, 2, 1])]:
            grown = when == "end" and random.random() < 0.4
            yield {
                "kind": "resources",
                "time_ns": 0,
                "node": node,
                "when": when,
                "acknowledged": random.choice([0, 1000]),
                "tasks": random.choice([None, 7, 9, 10 if grown else 8]),
                "threads": random.choice([None, 4, 40, 41 if grown else 5]),
                "sockets": random.choice([None, 5, 9, 10 if grown else 6]),
                "surplus_files": random.choice([None, 0, 2, 3 if grown else 1]),
                "memory_bytes": random.choice([None, 1 << 20, (65 << 20) + grown, 69 << 20]),
                "tables": random.choice(
                    [None, {}, {"heldPulls": int(grown)}, {"producers": 2 * grown, "more": 9}]
                ),
            }


def _errors(random: Random) -> Iterator[dict[str, Any]]:
    for error in random.sample(
        ["KeyError: 'a'", "TypeError: b", "IndexError: c"], random.choice([0, 0, 1, 3])
    ):
        yield {
            "kind": "internal_error",
            "time_ns": 5,
            "node": random.choice(NODES),
            "event": "request failed",
            "error": error,
            "times": random.choice([1, 40]),
        }


def _route_compared(random: Random) -> dict[str, Any]:
    master = random.choice([[4, 4, 6], [8, 8, 6], None])
    return {
        "kind": "topic_route",
        "time_ns": 0,
        "node": random.choice(["ns-1", "ns-2"]),
        "broker_name": random.choice("bbc"),
        "topic": random.choice("tu"),
        "route": random.choice([master, master, master, [4, 4, 6], [4, 4, 2], None]),
        "master": master,
    }
