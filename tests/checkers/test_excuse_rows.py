"""Each row of the table of excuses has a legal history that needs it: without the row it is a violation.

The other way round, `tests/checkers/mutations` shows what checkers still find where the row applies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import pytest

from staticfire.checkers.guarantees.excuses import excuses
from staticfire.checkers.guarantees.excuses.excuse import Excuse
from staticfire.checkers.guarantees.excuses.excuse_table import EXCUSES
from staticfire.checkers.guarantees.facts import NodeExit, Timings
from tests.checkers.groups.test_resets import OWNER, consumed, drained, operator
from tests.checkers.legal_histories import (
    BLIND,
    GIVEN_UP,
    LEADER_UNKNOWN,
    MEMBERS,
    NO_NAME_SERVER,
    OVERLAP,
    PAIR,
    STARTED_AGAIN,
    Legal,
    changed_route,
    cut,
    goes_back,
    late,
    locked,
    moved,
    offsets,
    route,
    slow,
    weak,
)
from tests.checkers.stories import Story
from tests.support.history_language import BROKER, NODE, fault

SOON = Timings(lock_end_s=2.0)


def _histories() -> Iterator[Legal]:
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
            "a member that is away takes no share",
            GIVEN_UP,
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
    # committed.py
    by_master = partial(offsets, asked="0")
    yield by_master(
        "the leader ended before it had written the offset down",
        faults=(fault("name_server_amnesia", "n0", at_s=9.5, healed_s=9.6),),
        taken_s=60,
    )
    yield by_master(
        "the disk of the leader had not stored the offset",
        faults=(fault("power_cut", "n0", at_s=18, healed_s=20),),
        taken_s=60,
        timings=Timings(write_back_s=35.0),
    )
    yield by_master(
        "the leader could not write the offset down, and ended",
        faults=(
            fault("slow_disk", "n0", at_s=8, healed_s=12),
            fault("graceful_stop", "n0", at_s=13, healed_s=14),
        ),
        taken_s=60,
    )
    yield by_master(
        "the leader ended before it had executed the commit",
        faults=(fault("graceful_stop", "n0", at_s=5.5, healed_s=7),),
        taken_s=60,
        sent_to="0",
        arrived=True,
    )
    yield by_master(
        "the commit was lost on its way, or a follower took it",
        "offset_on_its_way",
        faults=(cut("c1", "n0", at_s=4, healed_s=8),),
        taken_s=60,
        sent_to="0",
    )
    yield by_master(
        "the leader was not in the routes of the client, and a follower took the commit",
        "offset_at_follower",
        faults=(
            replace(fault("split_name_servers", "n0", at_s=4, healed_s=8), affects=("routes",)),
        ),
        taken_s=60,
        sent_to="1",
    )
    yield by_master(
        "a client that asked for the route while the leader was away knows a follower until it asks again",
        "offset_sent_to_follower",
        faults=(fault("rolling_restart", "n0", at_s=-6, healed_s=-3),),
        taken_s=60,
        sent_to="1",
    )
    yield by_master(
        "a client that starts knows only the follower, and commits there",
        "offset_at_follower",
        faults=(fault("pause", "ns-1", at_s=3, healed_s=4),),
        opened="3 ok open node=c1 t=4",
        taken_s=60,
        **NO_NAME_SERVER,
    )
    yield by_master(
        "coordinators without routes learned only of the follower, and clients that asked committed there",
        "offset_at_follower",
        faults=(fault("name_server_amnesia", "ns-1", at_s=3, healed_s=4),),
        taken_s=90,
        **NO_NAME_SERVER,
    )
    yield offsets(
        "an offset that was not yet written down, or not yet copied to a follower, is forgotten",
        "offset_forgotten",
        fault("kill", "n0", at_s=18, healed_s=20),
        taken_s=60,
    )
    yield offsets(
        "a follower answered that had not yet copied the offset, or the commit was lost on its way",
        "offset_forgotten",
        fault("pause", "n0", at_s=8, healed_s=20),
        taken_s=10,
    )
    yield offsets(
        "a client that starts knows only the follower, before the leader registers again",
        "offset_forgotten",
        fault("kill", "ns-1", at_s=8, healed_s=20),
        taken_s=30,
        **NO_NAME_SERVER,
    )
    yield offsets(
        "a disk was emptied, and the replicas may have come up with older offsets",
        "offset_replaced",
        fault("disk_lost", "n0", at_s=50, healed_s=55),
        taken_s=60,
    )
    yield offsets(
        "an operator reset the offsets",
        "offset_replaced",
        fault("offsets_reset", at_s=50, healed_s=55),
        taken_s=60,
    )
    # duplication.py, rewinds.py, polls.py
    yield from goes_back(
        "duplicate_unexplained", "1 ok consume a t=2", "1 ok consume b", "1 ok consume a t=9"
    )
    yield from goes_back(
        "commit_rewound", "1 ok consume a b t=2", "1 ok commit 0:2 t=3", "1 ok commit 0:1 t=9"
    )
    yield from goes_back(
        "nonmonotonic_poll", "1 ok consume a b t=2", "1 ok commit 0:2 t=3", "1 ok consume b t=9"
    )
    settled = ("1 ok assign 0 t=0.5", "0 ok send a t=1", "1 ok consume a t=2", "1 ok consume a t=9")
    yield Legal(
        mechanism="an operator reset the offsets",
        anomaly="duplicate_unexplained",
        row_of="sent_back",
        ops=settled,
        faults=(fault("offsets_reset", at_s=5, healed_s=6),),
        known={"replication": "sync"},
    )
    # late_deliveries.py, delivery_waits.py
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
        row_of="leader_unknown",
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
    yield slow(
        "an operator moved the group's offsets", fault("offsets_reset", at_s=19, healed_s=21)
    )
    # send_status.py
    yield weak(
        "the leader flushed it just after it had given up waiting",
        "FLUSH_DISK_TIMEOUT",
        fault("slow_disk", "n0", at_s=9, healed_s=16),
    )
    yield weak(
        "the disk of the leader failed, and the broker answered all waiting sends at once",
        "FLUSH_DISK_TIMEOUT",
        fault("disk_lost", "n0", at_s=10, healed_s=16),
        took_s=0.5,
    )
    yield weak(
        "the follower acknowledged it just after the leader had given up waiting",
        "FLUSH_SLAVE_TIMEOUT",
        fault("pause", "n1", at_s=9, healed_s=14),
    )
    yield weak(
        "no follower was in step when the message was stored, and one copied it just before the answer",
        "SLAVE_NOT_AVAILABLE",
        fault("kill", "n1", at_s=2, healed_s=9),
        took_s=0.5,
    )
    yield weak(
        "a follower whose disk failed ended the connection before it had acknowledged all that it holds",
        "SLAVE_NOT_AVAILABLE",
        fault("disk_full", "n1", at_s=2, healed_s=12),
        took_s=0.5,
    )
    yield weak(
        "a follower that was in step was silent for so long that the leader counted it as gone",
        "SLAVE_NOT_AVAILABLE",
        fault("packet_loss", "n1", at_s=-12, healed_s=9),
        took_s=0.5,
    )
    # ordered_keys.py
    yield moved(
        "a broker was not in the routes that producers saw",
        "key_moved",
        fault("kill", "n0", at_s=5, healed_s=9),
    )
    yield moved(
        "producers saw different routes", "key_moved", cut("n0", "ns-1", at_s=5, healed_s=9)
    )
    yield moved(
        "a coordinator knew fewer brokers than there are",
        "key_moved",
        fault("kill", "ns-1", at_s=5, healed_s=9),
    )
    yield moved(
        "the topic got more queues", "queues_changed", fault("topic_change", at_s=5, healed_s=6)
    )
    yield moved(
        "a broker is gone for good",
        "queues_changed",
        fault("disk_lost", "n0", at_s=5, healed_s=6),
        at_s=100.0,
    )
    # routes.py
    whole, master_only = {"0": "n0", "1": "n1"}, {"0": "n0"}
    away = fault("partition", "ns-1", at_s=10, healed_s=200)
    yield route(
        "missing_route",
        away,
        (0, whole, "n0 n1"),
        (20, master_only, "n0 n1"),
        (190, whole, "n0 n1"),
    )
    yield route("stale_route", away, (0, whole, "n0 n1"), (20, whole, "n0"), (190, whole, "n0"))
    # route_changes.py
    pauses = fault("pause", "n0", at_s=52, healed_s=70)
    yield changed_route(
        "route_drift",
        "the leader could not register at the coordinator",
        pauses,
        queues={50: 8},
        said={0: 4, 75: 8},
    )
    freezes = fault("name_server_freeze", "ns-1", at_s=30, healed_s=40)
    yield changed_route(
        "departed_route",
        "a coordinator that stood still gives servers a registration period to come back",
        freezes,
        said={0: 4, 85: None},
    )
    away = cut("n0", "ns-1", at_s=40, healed_s=52)
    yield changed_route(
        "goodbye_lost",
        "the end of a connection did not reach the coordinator",
        away,
        said={0: 4, 90: None},
    )
    # node_exits.py
    yield Legal(
        mechanism="its disk failed: a page that could not be written back is noticed at the next fsync",
        anomaly="node_died",
        ops=("0 ok send a",),
        faults=(fault("failing_disk", "n0", at_s=5, healed_s=8),),
        known={"exits": (NodeExit(node="n0", time_ns=6 * 10**9, error="EIO"),)},
    )
    # listeners.py
    for anomaly in ("two_listeners", "overlapping_owners"):
        yield locked(
            anomaly,
            "the leader has forgotten the lock, and the end of its connection tells the member",
            fault("kill", "n0", at_s=0, healed_s=1),
            timings=SOON,
        )
        yield locked(
            anomaly,
            "the host of the leader went without a word, and the leader has forgotten the lock",
            fault("power_cut", "n0", at_s=-20, healed_s=-10),
            timings=SOON,
        )
        yield locked(
            anomaly,
            "the leader has forgotten the lock, and its end did not reach the member",
            fault("pause", "c2", at_s=-15, healed_s=-8),
            fault("kill", "n0", at_s=-14, healed_s=-10),
            timings=SOON,
        )
        yield locked(
            anomaly,
            "the lock expired while the listener of its member was at work",
            fault("pause", "c2", at_s=-50, healed_s=1),
        )
        yield locked(
            anomaly,
            "RocketMQ keeps what is cached when a lock is lost, and takes ages from wall clocks",
            fault("clock_skew", "n0", at_s=0, healed_s=1),
            mode="faithful",
        )
    # transactions.py, delays.py
    asked = Story().send(1.0, "a", "info", transaction="commit", state="unknown")
    for number in range(3):
        answer = {"topic": "t", "key": "a", "state": "commit"}
        asked.op(7.1 + number, "ok", "check_back", answer)
    yield Legal(
        mechanism="a broker forgot that it had asked",
        anomaly="checked_too_often",
        ops=asked.consume(15.0, "a", 0),
        faults=(fault("kill", "n0", at_s=7.5, healed_s=8.0),),
        known={"check_after_s": 6.0, "check_max": 2},
    )
    over = Story().send(1.0, "a", transaction="commit", state="commit")
    over.op(7.1, "ok", "check_back", {"topic": "t", "key": "a", "state": "commit"})
    had = Story().send(1.0, "a", transaction="commit", state="commit").consume(3.0, "a", 0)
    answered = Story().send(1.0, "a", "info", transaction="commit", state="unknown")
    for asked_s in (7.1, 25.0):
        answered.op(asked_s, "ok", "check_back", {"topic": "t", "key": "a", "state": "commit"})
    for row_of, mechanism, story, of in (
        (
            "asked_again",
            "the broker did not learn how it ended, or refused that, or asked in time and was slow",
            over,
            fault("slow_disk", "n0", at_s=0.5, healed_s=2.0),
        ),
        (
            "asked_again",
            "the clock of the broker was wrong, by which it takes the age of a transaction",
            over,
            fault("clock_skew", "n0", at_s=6.0, healed_s=6.5),
        ),
        (
            "check_on_its_way",
            "what the broker asked arrived when TCP repeated it",
            had.op(30.0, "ok", "check_back", {"topic": "t", "key": "a", "state": "commit"}),
            fault("broker_black_hole", "n0", at_s=3.5, healed_s=20.0),
        ),
        (
            "half_doubled",
            "the broker ended before it had recorded that it had put the half back, or that it was over",
            answered,
            fault("kill", "n0", at_s=10.5, healed_s=11.0),
        ),
        (
            "answer_on_its_way",
            "a producer answered late, or its answer did not arrive",
            over,
            fault("client_crash", "p1", at_s=2.0, healed_s=7.0),
        ),
    ):
        yield Legal(
            mechanism=mechanism,
            anomaly="checked_too_often",
            row_of=row_of,
            ops=story,
            faults=(of,),
            known={"check_after_s": 6.0, "producers": ("p1",)},
        )
    half = {"topic": "t", "key": "a", "transaction": "unknown", "state": "unknown", "attempts": 1}
    unasked = Story().op(1.0, "invoke", "send", half)
    placed = {**half, "broker": "b", "queue": 0, "status": "SEND_OK"}
    unasked.op(1.01, "fail", "send", placed, error="never decided")
    unasked.send(1.1, "z", "info", transaction="unknown", state="unknown", attempts=2)
    unasked.op(40.0, "ok", "check_back", {"topic": "t", "key": "z", "state": "unknown"})
    for mechanism, of in (
        (
            "the broker knows no producer before one announces itself again",
            fault("kill", "n0", at_s=2, healed_s=3),
        ),
        (
            "a producer that started knew no route to the broker",
            fault("kill", "ns-1", at_s=2, healed_s=3),
        ),
        (
            "a round ends at a damaged half, until it is repaired",
            replace(fault("bit_rot", "n0", at_s=2, healed_s=12), affects=("rots",)),
        ),
    ):
        yield Legal(
            mechanism=mechanism,
            anomaly="unresolved_transaction",
            row_of="producers_unknown",
            ops=unasked,
            faults=(of,),
            known={
                **NO_NAME_SERVER,
                "check_after_s": 3.0,
                "check_every_s": 5.0,
                "producers": ("p1",),
            },
        )
    yield Legal(
        mechanism="the clock of the broker was wrong",
        anomaly="early_delivery",
        row_of="clock",
        ops=Story().send(1.0, "a", delay_level=2, delay_ms=5000).consume(3.0, "a", 0),
        faults=(
            fault("clock_skew", "n0", at_s=0, healed_s=10),
            fault("kill", "n0", at_s=2, healed_s=2.5),
        ),
    )
    yield Legal(
        mechanism="the broker was away, and a member that does not say what it owns took the queue over again",
        anomaly="duplicate_unexplained",
        row_of="queue_regained",
        ops=("0 ok send a t=1", "1 ok consume a t=2", "1 ok consume a t=9"),
        faults=(fault("kill", "n0", at_s=5, healed_s=6),),
        known={"replica_sets": {"b": ("n0",)}},
    )
    # stuck_producers.py
    for mechanism, of in (
        (
            "the broker could not store the message, or not on as many replicas as asked",
            fault("kill", "n1", at_s=5, healed_s=30),
        ),
        ("the producer was away", fault("pause", "p1", at_s=5, healed_s=45)),
        (
            "a coordinator knew no route to the broker before it registered again",
            fault("kill", "ns-1", at_s=5, healed_s=30),
        ),
        (
            "the producer could not reach the broker, or had no route to it",
            cut("p1", "n0", at_s=5, healed_s=30),
        ),
    ):
        yield Legal(
            mechanism=mechanism,
            anomaly="producer_stuck",
            ops=tuple(
                f"0 {type} send {key} node=p1 t={at_s}"
                for key, at_s in zip("abcde", range(10, 60, 9), strict=False)
                for type in ("invoke", "fail")
            ),
            faults=(of,),
            known={**NO_NAME_SERVER, "producers": ("p1",)},
        )
    yield Legal(
        mechanism="the producer was held up",
        anomaly="overdue_send",
        ops=("0 invoke send a node=p1 t=10", "0 info send a node=p1 t=20"),
        faults=(fault("pause", "p1", at_s=11, healed_s=19),),
        known={**NO_NAME_SERVER, "producers": ("p1",), "timings": Timings(send_s=3.0)},
    )
    # refusals.py
    refused = {"topic": "t", "key": "x", "illegal": "properties", "code": 14, "broker": "b"}
    yield Legal(
        mechanism="the broker could not store anything or had not loaded its topics, and refused before any check",
        anomaly="wrong_refusal",
        ops=Story().op(9.0, "ok", "refused", refused),
        faults=(fault("kill", "n0", at_s=7.5, healed_s=8.0),),
    )
    unable = {"topic": "t", "key": "x", "size": 1, "code": 14, "refused_by": "b"}
    yield Legal(
        mechanism="the broker could not store anything or had not loaded its topics, and refused before any check",
        anomaly="needless_refusal",
        ops=Story().op(8.9, "invoke", "send", unable).op(9.0, "fail", "send", unable),
        faults=(fault("kill", "n0", at_s=7.5, healed_s=8.0),),
    )
    # recovery.py
    for mechanism, row_of, of, mode in (
        (
            "its disk was full, and a broker may then delete messages that every group has consumed",
            "lost_from_log",
            fault("disk_full", "n0", at_s=5, healed_s=6),
            "hardened",
        ),
        (
            "RocketMQ copies to an empty follower only from the last file of its leader on",
            "faithful lost_from_log",
            fault("wiped_slave", "n1", at_s=5, healed_s=6),
            "faithful",
        ),
    ):
        yield Legal(
            mechanism=mechanism,
            anomaly="lost_from_log",
            row_of=row_of,
            ops=("0 ok send a t=1", "1 ok consume a t=2", "9 ok drain 0:5:5 min=1 t=10"),
            faults=(of,),
            known={"kept_s": 60.0, "mode": mode},
        )
    # moved_copies.py
    half = {"key": "a", "topic": "t", "transaction": "commit", "queue_offset": -1, "stored_at": 0}
    moved_twice = Story().op(1.0, "invoke", "send", {**half, "attempts": 1})
    moved_twice.op(2.0, "ok", "send", {**half, "attempts": 1, "broker": "b", "queue": 0})
    moved_twice.consume(5.0, "a", 0).consume(6.0, "a", 1)
    for row_of, died, known in (
        ("moved_twice", "died", {"replication": "sync"}),
        ("moved_twice unreplicated", "died, or could not write,", {"replication": "async"}),
    ):
        yield Legal(
            mechanism=f"a broker {died} before it had recorded that it had moved the message",
            anomaly="duplicate_unexplained",
            row_of=row_of,
            ops=moved_twice,
            faults=(fault("kill", "n0", at_s=2.5, healed_s=4.0),),
            known=known,
        )
    for mechanism, row_of, copies_s, struck in (
        (
            "the broker could not record anything",
            "progress_held unreplicated",
            (5.0, 95.0),
            (
                fault("pause", "n0", at_s=6, healed_s=80),
                fault("kill", "n0", at_s=90, healed_s=94),
            ),
        ),
        (
            "the copy could not become safe, so the broker could not record that it had moved the message",
            "progress_held",
            (5.0, 95.0),
            (
                fault("pause", "n1", at_s=6, healed_s=80),
                fault("kill", "n0", at_s=90, healed_s=94),
            ),
        ),
        (
            "producers could not be asked about the transaction",
            "check_held",
            (5.0, 250.0),
            (
                fault("kill", "n0", at_s=6, healed_s=10),
                fault("pause", "p1", at_s=10, healed_s=200),
            ),
        ),
    ):
        moved_again = Story().op(1.0, "invoke", "send", {**half, "attempts": 1})
        moved_again.op(2.0, "ok", "send", {**half, "attempts": 1, "broker": "b", "queue": 0})
        for offset, at_s in enumerate(copies_s):
            contents = [None, None, None, None, int(at_s * 1000), None, None]
            place = {"group": "g", "topic": "t", "broker": "b", "queue": 0}
            row = ["a", offset, offset, True, 0, contents]
            moved_again.op(at_s + 0.5, "ok", "consume", {**place, "messages": [row]}, process=9)
        checks = {"check_after_s": 6.0, "check_every_s": 5.0, "producers": ("p1",)}
        yield Legal(
            mechanism=mechanism,
            anomaly="duplicate_unexplained",
            row_of=row_of,
            ops=moved_again,
            faults=struck,
            known={
                "replication": "async" if row_of.endswith("unreplicated") else "sync",
                "wall_epoch_ms": 0,
                **checks,
            },
        )

    # resets.py
    yield Legal(
        mechanism="the leader did not know the owner, the order did not arrive, or the owner ended before it",
        anomaly="reset_ignored",
        ops=drained(consumed()),
        faults=(operator(), fault("pause", f"c{OWNER}", at_s=15, healed_s=22)),
        known={"replica_sets": {BROKER: (NODE,)}},
    )


HISTORIES = tuple(_histories())


def test_every_row_has_one() -> None:
    rows = {(anomaly, row.mechanism) for anomaly, rows in EXCUSES.items() for row in rows}
    assert {legal.row for legal in HISTORIES} == rows


@pytest.mark.slow
@pytest.mark.parametrize("legal", HISTORIES, ids=lambda legal: ": ".join(legal.row))
def test_it_is_legal_only_by_its_row(legal: Legal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert legal.violations() == 0
    monkeypatch.setattr(excuses, "EXCUSES", _without(legal))
    assert legal.violations() > 0


def _without(legal: Legal) -> Mapping[str, tuple[Excuse, ...]]:
    anomaly, mechanism = legal.row
    left = tuple(row for row in EXCUSES[anomaly] if row.mechanism != mechanism)
    return MappingProxyType({**EXCUSES, anomaly: left})
