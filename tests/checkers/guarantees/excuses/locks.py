"""Histories that are legal only by one of the rows on queues of orderly groups that two members have."""

from __future__ import annotations

from collections.abc import Iterator

from staticfire.checkers.guarantees.facts import Timings
from tests.checkers.legal_histories import (
    Legal,
    locked,
)
from tests.support.history_language import fault

SOON = Timings(lock_end_s=2.0)


def histories() -> Iterator[Legal]:
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
