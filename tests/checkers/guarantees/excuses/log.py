"""Histories that are legal only by one of the rows on messages that a queue has twice, or not any more."""

from __future__ import annotations

from collections.abc import Iterator

from tests.checkers.legal_histories import (
    Legal,
    goes_back,
)
from tests.checkers.stories import Story
from tests.support.history_language import fault


def histories() -> Iterator[Legal]:
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
