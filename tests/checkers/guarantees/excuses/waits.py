"""Histories that are legal only by one of the rows on messages that members get late."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.checkers.legal_histories import (
    LEADER_UNKNOWN,
    MEMBERS,
    Legal,
    cut,
    late,
    slow,
)
from tests.checkers.stories import Story
from tests.support.history_language import fault
from tests.support.waiting_histories import EPOCH_MS


def stored_early(given_s: float) -> Story:
    """A message of a send without an answer, stored at 25 s, reaches its member later."""
    assigned = {"group": "g", "topic": "t", "queues": [["b", 0]]}
    story = Story().opened("c1", 100).op(0.1, "ok", "assign", assigned, process=100)
    story.op(20.0, "invoke", "send", {"key": "a", "topic": "t", "size": 1, "attempts": 1})
    story.op(23.0, "info", "send", {"key": "a", "topic": "t", "size": 1, "attempts": 1}, error="?")
    return story.consume(given_s, "a", 0, stored_ms=EPOCH_MS + 25_000)


def histories() -> Iterator[Legal]:
    killed = fault("kill", "n0", at_s=5, healed_s=30)
    yield late("the broker could not move the message", killed)
    yield late(
        "a member of the group was away or slow", fault("slow_consumer", "c1", at_s=5, healed_s=30)
    )
    yield late(
        "a member of the group could not reach the broker", cut("c1", "n0", at_s=5, healed_s=30)
    )
    yield slow("the broker could not answer a pull", fault("kill", "n0", at_s=19, healed_s=21))
    yield slow(
        "the owner of the queue was away or slow",
        fault("slow_consumer", "c1", at_s=19, healed_s=21),
    )
    yield slow(
        "the owner of the queue could not reach the broker", cut("c1", "n0", at_s=19, healed_s=21)
    )
    yield Legal(
        mechanism="a follower without a leader lacks what another one has before it asks for it",
        anomaly="slow_delivery",
        row_of="slave_behind_slave",
        ops=(*MEMBERS[:1], "1 ok assign 0 t=0.5", "0 ok send a t=20", "1 ok consume a t=47"),
        faults=(replace(fault("disk_lost", "n0", at_s=20, healed_s=22), permanent=True),),
        known={"replica_sets": {"b": ("n0", "n1", "n2")}},
    )
    yield Legal(
        mechanism="a follower that starts does not learn from this coordinator which node is its leader",
        anomaly="slow_delivery",
        row_of="coordinator_silent",
        ops=(*MEMBERS[:1], "1 ok assign 0 t=0.5", "0 ok send a t=20", "1 ok consume a t=47"),
        faults=LEADER_UNKNOWN,
        known={"coordinators": ("ns-1", "ns-2"), "follower_reads": True},
    )
    yield Legal(
        mechanism="a coordinator that starts does not know the leader before it registers again",
        anomaly="slow_delivery",
        row_of="leader_unknown",
        ops=(*MEMBERS[:1], "1 ok assign 0 t=0.5", "0 ok send a t=30", "1 ok consume a t=46"),
        faults=(
            fault("name_server_amnesia", "ns-1", at_s=5, healed_s=7),
            fault("kill", "n1", at_s=20, healed_s=22),
        ),
        known={"coordinators": ("ns-1",), "follower_reads": True},
    )
    yield Legal(
        mechanism="what a leader sends to its follower is under way until TCP repeats it",
        anomaly="slow_delivery",
        row_of="follower_link_broken",
        ops=(*MEMBERS[:1], "1 ok assign 0 t=0.5", "0 ok send a t=30", "1 ok consume a t=38"),
        faults=(cut("n0", "n1", at_s=5, healed_s=22),),
        known={"replica_sets": {"b": ("n0", "n1")}, "follower_reads": True},
    )
    yield Legal(
        mechanism="the leader waits for a follower until that has been silent for long enough",
        anomaly="slow_delivery",
        row_of="uncopied",
        ops=stored_early(41.0),
        faults=(fault("pause", "n1", at_s=5, healed_s=16),),
        known={"replication": "sync", "wall_epoch_ms": EPOCH_MS},
    )
    yield slow(
        "an operator moved the group's offsets", fault("offsets_reset", at_s=19, healed_s=21)
    )
