"""Histories that are legal only by a row of the table of excuses, and the functions that make them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.model.history import Op
from staticfire.checkers.verdicts.compose import check_run
from tests.checkers.stories import Story
from tests.checkers.white_box.test_replicas import ack
from tests.support.history_language import facts, fault, history

PAIR = {"b": ("n0", "n1")}


@dataclass(frozen=True, kw_only=True)
class Legal:
    """A legal history; `anomaly` is what it would be without the row."""

    mechanism: str
    anomaly: str
    ops: tuple[str, ...] | Story
    faults: tuple[FaultFacts, ...] = ()
    seen: tuple[dict[str, Any], ...] = ()
    known: dict[str, Any] = field(default_factory=dict)
    row_of: str = ""  # where the rows have a name of their own

    @property
    def row(self) -> tuple[str, str]:
        return self.row_of or self.anomaly, self.mechanism

    def violations(self) -> int:
        """How often the anomaly is reported as a violation."""
        ops: list[Op] = history(*self.ops) if isinstance(self.ops, tuple) else self.ops.ops
        known = facts(**{"replica_sets": PAIR, "faults": self.faults, **self.known})
        verdicts = check_run(ops, self.seen, known).verdicts
        assert not any("checker failed" in (verdict.reason or "") for verdict in verdicts)
        return sum(verdict.counts.get(self.anomaly, 0) for verdict in verdicts)


MEMBERS = ("1 ok open node=c1 t=0.2", "2 ok open node=c2 t=0.2")
GIVEN_UP = (
    *("0 ok send a t=0.1", "0 ok send b queue=1", *MEMBERS),
    *("1 ok assign 0 t=1", "2 ok assign 1 t=1", "2 ok assign t=50", "9 ok drain t=100"),
)
STARTED_AGAIN = (*GIVEN_UP[:-1], "3 ok open node=c2 t=55", GIVEN_UP[-1])
OVERLAP = (
    *("0 ok send a t=0.1", "1 ok open node=c1 t=0.2", "1 ok assign 0 t=1"),
    *("2 ok open node=c2 t=49", "2 ok assign 0 t=50", "1 ok assign t=95", "9 ok drain t=100"),
)
NO_NAME_SERVER: dict[str, Any] = {"coordinators": ("ns-1",)}
BLIND = fault("kill", "ns-1", at_s=45, healed_s=80)


def cut(one: str, other: str, *, at_s: float, healed_s: float) -> FaultFacts:
    struck = fault("partition_one", one, at_s=at_s, healed_s=healed_s)
    return replace(struck, links=((one, other),))


def goes_back(anomaly: str, *ops: str) -> Iterator[Legal]:
    """A member goes back over messages that are not settled, after a fault or an operator."""
    not_settled = {"replication": "sync", "replica_sets": {"b": ("n0", "n1", "n2")}}
    row_of_order = anomaly if anomaly == "nonmonotonic_poll" else "sent_back"
    for mechanism, row_of, of, owned in (
        (
            "an operator reset the offsets",
            row_of_order,
            fault("offsets_reset", at_s=5, healed_s=6),
            (),
        ),
        (
            "a follower served messages that the leader does not serve until replication continues",
            anomaly,
            fault("kill", "n0", at_s=5, healed_s=6),
            ("1 ok assign 0 t=0.5",),
        ),
    ):
        yield Legal(
            mechanism=mechanism,
            anomaly=anomaly,
            row_of=row_of,
            ops=(*owned, "0 ok send a t=1", "0 ok send b", *ops),
            faults=(of,),
            known=not_settled,
        )


def offsets(
    mechanism: str,
    row_of: str = "offset_lost",
    *more: FaultFacts,
    faults: tuple[FaultFacts, ...] = (),
    taken_s: float,
    opened: str = "2 ok open node=c2 t=4",
    asked: str = "",
    sent_to: str = "",
    arrived: bool = False,
    **known: Any,
) -> Legal:
    """A member takes a queue over at 0, although 1 was committed at 5 s.

    `asked`: the broker that answered 0; `sent_to`: the broker of the commit; `arrived`: it had the commit at 5.4 s.
    """
    ops = (
        *("1 ok open node=c1 t=0.2", "1 ok assign 0 t=0.5", "0 ok send a t=1", "1 ok consume a"),
        *(opened, *((f"1 ok commit_to {sent_to} t=5",) if sent_to else ()), "1 ok commit 0:1 t=5"),
        *((f"1 ok commit_to {sent_to} arrived=1 t=5.4",) if arrived else ()),
        f"2 ok assign 0 t={taken_s}",
        *((f"2 ok begin 0:0 by={asked}",) if asked else ()),
        f"2 ok consume a t={taken_s + 1}",
    )
    return Legal(
        mechanism=mechanism,
        anomaly="duplicate_unexplained",
        row_of=row_of,
        ops=ops,
        faults=(*faults, *more),
        known=known,
    )


def late(mechanism: str, *faults: FaultFacts) -> Legal:
    assigned = {"group": "g", "topic": "t", "queues": [["b", 0]]}
    story = Story().opened("c1", 100).op(0.1, "ok", "assign", assigned, process=100)
    story.send(1.0, "a", delay_level=2, delay_ms=5000).consume(42.0, "a", 0)
    return Legal(mechanism=mechanism, anomaly="late_delivery", ops=story, faults=faults)


def slow(mechanism: str, of: FaultFacts) -> Legal:
    opened = ("1 ok open node=c1 t=0.1", "1 ok assign 0 t=0.2", "9 ok drain t=40")
    ops = (*opened[:2], "0 ok send a t=20", "1 ok consume a t=24", opened[2])
    return Legal(mechanism=mechanism, anomaly="slow_delivery", ops=ops, faults=(of,))


# One coordinator hangs and the other is down while a follower starts anew.
LEADER_UNKNOWN = (
    fault("name_server_freeze", "ns-1", at_s=5, healed_s=40),
    fault("kill", "ns-2", at_s=6, healed_s=30),
    fault("kill", "n1", at_s=8, healed_s=9),
)


def weak(mechanism: str, status: str, of: FaultFacts, *, took_s: float = 6.0) -> Legal:
    ops = (
        *("0 ok send b t=1", "0 invoke send a t=10"),
        f"0 info send a error={status} t={10 + took_s}",
    )
    return Legal(
        mechanism=mechanism,
        anomaly="spurious_weak_status",
        row_of=f"spurious_weak_status {status}",
        ops=ops,
        faults=(of,),
        seen=(ack(durable="n0 n1", status=status),),
        known={"replication": "sync"},
    )


def moved(mechanism: str, row_of: str, of: FaultFacts, *, at_s: float = 10.0) -> Legal:
    story = Story().send(0.0, "a", sharding_key="k").send(at_s, "b", queue=1, sharding_key="k")
    leaders = {**PAIR, "c": ("m0",)}
    known = {"orderly": ("g",), "coordinators": ("ns-1",), "replica_sets": leaders}
    return Legal(
        mechanism=mechanism,
        anomaly="key_moved",
        row_of=row_of,
        ops=story,
        faults=(of,),
        known=known,
    )


def route(anomaly: str, of: FaultFacts, *answers: tuple[float, Any, str]) -> Legal:
    seen = tuple(
        {"kind": "route", "time_ns": int(at_s * 1e9), "node": "ns-1", "brokers": named, "up": up}
        for at_s, named, up in (
            (at_s, {"b": named}, list(up.split())) for at_s, named, up in answers
        )
    )
    mechanism = "the broker and the coordinator could not communicate"
    known = {"routes_observed": True}
    return Legal(mechanism=mechanism, anomaly=anomaly, ops=(), faults=(of,), seen=seen, known=known)


def changed_route(
    row_of: str,
    mechanism: str,
    of: FaultFacts,
    *,
    said: dict[int, int | None],
    queues: dict[int, int] | None = None,
) -> Legal:
    """What a name server says of a topic, and the leader's numbers of queues; without them the leader ends at 50 s."""
    seen = [_at(0, "server_life", node=node, life=1, ended=None) for node in ("ns-1", "n0")]
    for at_s, number in {0: 4, **(queues or {})}.items():
        seen.append(_at(at_s, "topic_table", node="n0", topics={"t": [number, number, 6]}))
    if queues is None:
        seen.append(_at(50, "server_life", node="n0", life=1, ended="killed"))
    for at_s, answered in said.items():
        topics = {} if answered is None else {"t": [answered, answered, 6]}
        named = {} if answered is None else {"0": "n0"}
        route = {"broker_name": "b", "addresses": named, "topics": topics}
        seen.append(_at(at_s, "route_table", node="ns-1", life=1, **route))
    observed = ("routes_observed", "topic_routes_observed", "route_changes_observed")
    return Legal(
        mechanism=mechanism,
        anomaly="route_drift" if queues else "departed_route",
        row_of=row_of,
        ops=(),
        faults=(of,),
        seen=(*seen, _at(100, "events")),
        known=dict.fromkeys(observed, True),
    )


def changed_table(mechanism: str, of: FaultFacts) -> Legal:
    """A leader changes the settings of a group at 50 s, and its follower has them at 75 s."""
    seen = [_at(0, "server_life", node=node, life=1, ended=None) for node in ("n0", "n1")]
    for node, at_s in (("n0", 50), ("n1", 75)):
        for table in ("groups", "delays", "offsets"):
            for time_s, version in ((0, "1"), (at_s, "2")):
                seen.append(
                    _at(
                        time_s,
                        "server_table",
                        node=node,
                        life=1,
                        table=table,
                        version=version if table == "groups" else "",
                        changes=int(version),
                        ready=True,
                        emptied=False,
                        entries={"g": version} if table == "groups" else {},
                    )
                )
    return Legal(
        mechanism=mechanism,
        anomaly="table_uncopied",
        ops=(),
        faults=(of,),
        seen=(*seen, _at(100, "events")),
        known={"tables_observed": True},
    )


def _at(at_s: float, kind: str, **fields: Any) -> dict[str, Any]:
    return {"time_ns": int(at_s * 1e9), "kind": kind, **fields}


def locked(anomaly: str, mechanism: str, *faults: FaultFacts, **known: Any) -> Legal:
    ops: dict[str, tuple[str, ...]] = {
        "two_listeners": (
            *("1 invoke consume a", "2 invoke consume b"),
            *("1 ok consume a", "2 ok consume b"),
        ),
        "overlapping_owners": (
            *("0 ok send c", "1 ok assign 0", "1 ok consume a"),
            *("2 ok consume b", "1 ok consume c"),
        ),
    }
    sent = (*MEMBERS, "0 ok send a", "0 ok send b")
    return Legal(
        mechanism=mechanism,
        anomaly=anomaly,
        row_of=f"faithful {anomaly}" if "mode" in known else "",
        ops=(*sent, *ops[anomaly]),
        faults=faults,
        known={"orderly": ("g",), **known},
    )
