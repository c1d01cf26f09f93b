"""Histories that are legal only by one of the rows on sends."""

from __future__ import annotations

from collections.abc import Iterator

from staticfire.checkers.guarantees.facts import Timings
from tests.checkers.legal_histories import (
    NO_NAME_SERVER,
    Legal,
    cut,
    moved,
    weak,
)
from tests.checkers.stories import Story
from tests.support.history_language import fault


def histories() -> Iterator[Legal]:
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
        "a leader was not in the routes that producers saw",
        "key_moved",
        fault("kill", "n0", at_s=5, healed_s=9),
    )
    yield moved(
        "producers saw different routes", "key_moved", cut("n0", "ns-1", at_s=5, healed_s=9)
    )
    yield moved(
        "a coordinator knew fewer leaders than there are",
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
    # stuck_producers.py
    for row_of, mechanism, of in (
        (
            "",
            "the broker could not store the message, or not on as many replicas as asked",
            fault("kill", "n0", at_s=5, healed_s=30),
        ),
        ("", "the producer was away", fault("pause", "p1", at_s=5, healed_s=45)),
        (
            "route_unknown",
            "a coordinator knew no route to the broker before it registered again",
            fault("kill", "ns-1", at_s=5, healed_s=30),
        ),
        (
            "",
            "the producer could not reach the broker, or had no route to it",
            cut("p1", "n0", at_s=5, healed_s=30),
        ),
    ):
        yield Legal(
            mechanism=mechanism,
            anomaly="producer_stuck",
            row_of=row_of,
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
    full = fault("disk_full", "n0", at_s=1, healed_s=2)
    no_space = (
        "the broker could not write, and looks only now and then whether its disk has space again"
    )
    yield Legal(
        mechanism=no_space,
        anomaly="wrong_refusal",
        ops=Story().op(9.0, "ok", "refused", refused),
        faults=(full,),
    )
    unable = {"topic": "t", "key": "x", "size": 1, "code": 14, "refused_by": "b"}
    yield Legal(
        mechanism="the broker could not store anything or had not loaded its topics, and refused before any check",
        anomaly="needless_refusal",
        ops=Story().op(8.9, "invoke", "send", unable).op(9.0, "fail", "send", unable),
        faults=(fault("kill", "n0", at_s=7.5, healed_s=8.0),),
    )
    yield Legal(
        mechanism=no_space,
        anomaly="needless_refusal",
        ops=Story().op(8.9, "invoke", "send", unable).op(9.0, "fail", "send", unable),
        faults=(full,),
    )
    busy = {**unable, "code": 2}
    for of in (
        fault("pause", "n0", at_s=7.5, healed_s=8.0),
        fault("slow_disk", "n0", at_s=1, healed_s=2),
    ):
        yield Legal(
            mechanism="requests waited behind a slow disk, or while the broker stood still",
            anomaly="needless_refusal",
            row_of="too_busy",
            ops=Story().op(8.9, "invoke", "send", busy).op(9.0, "fail", "send", busy),
            faults=(of,),
            known={"may_be_busy": False},
        )
    of_guest = {**unable, "code": 1, "account": "guest"}
    yield Legal(
        mechanism="an administrator was changing the rights of the account",
        anomaly="needless_refusal",
        row_of="account_refused",
        ops=Story().op(8.9, "invoke", "send", of_guest).op(9.0, "info", "send", of_guest),
        faults=(fault("rights_change", at_s=5, healed_s=8),),
    )
