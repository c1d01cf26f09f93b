"""Anomalies of groups: ownership of queues, exclusive consumption, broadcasting and subscriptions."""

from __future__ import annotations

from typing import Final

from staticfire.checkers.anomalies.anomaly import Anomaly

SHARED = "At rest each queue of a group has one living owner, and shares are even."
OWNED = "Only a running member that owns a queue receives its messages and commits its offset."
ONE_AT_A_TIME = "One member of an orderly group works on a queue at a time."
BROADCAST = "Every member of a broadcasting group receives every message."
SUBSCRIBED = "All members of a group have the same subscriptions."
LOCK_TAKEN = "a fault may have taken the lock from one of the two members (excuse_table.py)"

GROUPS: Final = (
    Anomaly(
        name="queue_unowned",
        title="queue without an owner",
        meaning="for longer than a rebalance takes, no living member owned a queue",
        promise=SHARED,
        example="`0 ok send a / 1 ok assign 0 / 1 ok assign t=10 / 9 ok drain t=60`",
    ),
    Anomaly(
        name="double_ownership",
        title="queue with two owners",
        meaning="for longer than a rebalance takes, two living members owned a queue",
        promise=SHARED,
        example="`1 ok assign 0 / 2 ok assign 0 / 9 ok drain t=60`",
    ),
    Anomaly(
        name="uneven_shares",
        title="uneven shares",
        meaning=(
            "at rest, for longer than a rebalance takes, one living member had at least two queues "
            "of a topic more than another"
        ),
        promise=SHARED,
        example="four queues and two members: one has all of them for 40 s, the other one none",
    ),
    Anomaly(
        name="unowned_commit",
        title="commit without ownership",
        meaning=(
            "a process committed an offset of a queue that, by its own assignments, it had not "
            "owned until then"
        ),
        promise=OWNED,
        example="`0 ok send a / 1 ok assign 0 / 1 ok consume a / 2 ok commit 0:1`",
    ),
    Anomaly(
        name="unowned_delivery",
        title="delivery without ownership",
        meaning=(
            "a member received messages of a queue that, by its own assignments, it did not own"
        ),
        promise=OWNED,
        example="`0 ok send a / 1 ok assign 0 / 2 ok consume a`",
    ),
    Anomaly(
        name="unknown_consumer",
        title="unknown consumer",
        meaning=(
            "messages were delivered to a process that never opened, to a member of another group, "
            "or to an unknown group"
        ),
        promise=OWNED,
        example="`0 ok send a / 1 ok consume a group=x`",
    ),
    Anomaly(
        name="delivery_after_exit",
        title="delivery after an exit",
        meaning="messages were delivered to a process that had ended",
        promise=OWNED,
        example="`0 ok send a / 1 ok open node=c1 / 2 ok open node=c1 t=5 / 1 ok consume a t=6`",
    ),
    Anomaly(
        name="two_listeners",
        title="two listeners at once",
        meaning=(
            "the listeners of two members of an orderly group worked on one queue at the same time"
        ),
        promise=ONE_AT_A_TIME,
        example="1 begins with a, 2 begins with b of the same queue, 1 ends",
        excuse=LOCK_TAKEN,
        excused="informational",
    ),
    Anomaly(
        name="overlapping_owners",
        title="overlapping owners",
        meaning=(
            "a member of an orderly group received messages of a queue between two calls of "
            "another member that owned the queue all the time"
        ),
        promise=ONE_AT_A_TIME,
        example="1 has the queue and consumes a, 2 receives b, 1 continues with c",
        excuse=LOCK_TAKEN,
        excused="informational",
    ),
    Anomaly(
        name="member_missed",
        title="member that missed a message",
        meaning=(
            "a member of a broadcasting group did not receive a message that was acknowledged or "
            "that other members received"
        ),
        promise=BROADCAST,
        example="two members, and only one received it",
        test="tests/checkers/groups/test_broadcasting.py",
        by_damage=True,
    ),
    Anomaly(
        name="subscriptions_differ",
        title="different subscriptions",
        meaning=(
            "members of one group have different topics, expressions, models or kinds of listener"
        ),
        promise=SUBSCRIBED,
        example="one member subscribes to tag A, another to B",
        test="tests/checkers/groups/test_subscriptions.py",
    ),
)
