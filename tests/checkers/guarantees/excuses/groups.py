"""Histories that are legal only by one of the rows on groups."""

from __future__ import annotations

from collections.abc import Iterator

from tests.checkers.groups.test_resets import OWNER, consumed, drained, operator
from tests.checkers.legal_histories import (
    BLIND,
    GIVEN_UP,
    NO_NAME_SERVER,
    OVERLAP,
    PAIR,
    STARTED_AGAIN,
    Legal,
    cut,
)
from tests.support.history_language import BROKER, NODE, fault, queues_confirmed


def histories() -> Iterator[Legal]:
    # groups.py
    kill = fault("kill", "n0", at_s=51, healed_s=90)
    for mechanism, ops, *faults in (
        (
            "a broker of which no replica answers is not in the routes",
            GIVEN_UP,
            fault("cluster_power_cut", *PAIR["b"], at_s=51, healed_s=90),
        ),
        (
            "a broker whose connection to a coordinator ended is not in the routes before it registers again",
            GIVEN_UP,
            cut("n0", "ns-1", at_s=51, healed_s=56),
            fault("wiped_slave", "n1", at_s=55, healed_s=57),
        ),
        (
            "a coordinator that starts learns the queues of a broker from its leader",
            GIVEN_UP,
            kill,
            fault("name_server_amnesia", "ns-1", at_s=51, healed_s=52),
        ),
        (
            "a member that stalls does not take its new share, and brokers still count it as a member",
            GIVEN_UP,
            fault("topic_change", at_s=45, healed_s=46),
            fault("pause", "c1", at_s=51, healed_s=90),
        ),
        (
            "a member that is cut off does not know its share, or brokers still count it as a member",
            GIVEN_UP,
            fault("topic_change", at_s=45, healed_s=46),
            cut("c1", "n0", at_s=51, healed_s=90),
        ),
        (
            "a member that starts cannot announce itself to all brokers before these register again",
            STARTED_AGAIN,
            BLIND,
        ),
    ):
        yield Legal(
            mechanism=mechanism,
            anomaly="queue_unowned",
            ops=ops,
            faults=tuple(faults),
            known=NO_NAME_SERVER,
        )
    crashes = [fault("client_crash", node, at_s=51, healed_s=90) for node in ("c1", "c2")]
    yield Legal(
        mechanism="a member that is away takes no share",
        anomaly="queue_unowned",
        row_of="member_away",
        ops=GIVEN_UP,
        faults=tuple(crashes),
        known=NO_NAME_SERVER,
    )
    yield Legal(
        mechanism="members learn from a broker that another one has ended",
        anomaly="queue_unowned",
        row_of="end_unnoticed",
        ops=GIVEN_UP,
        faults=(crashes[1], fault("pause", "n0", at_s=51, healed_s=90)),
        known=NO_NAME_SERVER,
    )
    yield Legal(
        mechanism="the leader could not register the new queues at a coordinator that clients ask",
        anomaly="queue_unowned",
        row_of="queues_unregistered",
        ops=("1 ok assign 0 t=1", "9 ok drain t=150"),
        faults=(
            queues_confirmed(2, at_s=50),
            fault("name_server_freeze", "ns-1", at_s=52, healed_s=60),
        ),
        known=NO_NAME_SERVER,
    )
    yield Legal(
        mechanism="the leader gives no locks, and a follower gives none at all",
        anomaly="queue_unowned",
        row_of="queue_unlocked",
        ops=(*GIVEN_UP[:-1], "9 ok drain t=200"),
        faults=(fault("pause", "n0", at_s=51, healed_s=190),),
        known={"orderly": ("g",)},
    )
    for mechanism, *faults in (
        (
            "a member that starts cannot announce itself to all brokers before these register again",
            BLIND,
        ),
        (
            "members that have not heard of a broker that started are not in its list before it registers again",
            fault("kill", "n0", at_s=20, healed_s=49),
            fault("name_server_amnesia", "ns-1", at_s=50, healed_s=52),
        ),
        (
            "a member that is cut off does not know that others have taken its queues",
            fault("pause", "c1", at_s=49, healed_s=90),
        ),
    ):
        yield Legal(
            mechanism=mechanism,
            anomaly="double_ownership",
            ops=OVERLAP,
            faults=tuple(faults),
            known=NO_NAME_SERVER,
        )
    # resets.py
    yield Legal(
        mechanism="the leader did not know the owner, the order did not arrive, or the owner ended before it",
        anomaly="reset_ignored",
        ops=drained(consumed()),
        faults=(operator(), fault("pause", f"c{OWNER}", at_s=15, healed_s=22)),
        known={"replica_sets": {BROKER: (NODE,)}},
    )
