"""The time and the status of the answer to a stored message."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.broker.sending.pending_sends import PendingSends
from staticfire.system_under_test.broker.statistics.put_times import PutTimes
from staticfire.system_under_test.protocol.codes import ResponseCode

FLUSH_TIMEOUT_NS = 5_000
SLAVE_TIMEOUT_NS = 3_000


class Waiting:
    """WaitingSends on a clock moved by hand; answers are noted as (end offset, code)."""

    def __init__(self, *, sync_flush: bool, sync_replication: bool) -> None:
        self.now_ns = 0
        self.flushed = 0
        self.replicated = 0
        self.answers: list[tuple[int, int]] = []
        self.times = PutTimes()
        self.sends = PendingSends(
            sync_flush=sync_flush,
            sync_replication=sync_replication,
            flush_timeout_ns=FLUSH_TIMEOUT_NS,
            slave_timeout_ns=SLAVE_TIMEOUT_NS,
            times=self.times,
        )

    def add(self, end_offset: int, *, slave_usable: bool = True) -> None:
        def answer(code: ResponseCode) -> None:
            self.answers.append((end_offset, int(code)))

        self.sends.add(end_offset, answer, now_ns=self.now_ns, slave_usable=slave_usable)

    def settle(
        self,
        *,
        flushed: int | None = None,
        replicated: int | None = None,
        now_ns: int | None = None,
    ) -> list[tuple[int, int]]:
        """Move the marks that are given; return the new answers."""
        self.flushed = self.flushed if flushed is None else flushed
        self.replicated = self.replicated if replicated is None else replicated
        self.now_ns = self.now_ns if now_ns is None else now_ns
        self.answers.clear()
        self.sends.settle(
            now_ns=self.now_ns, flushed_offset=self.flushed, replicated_offset=self.replicated
        )
        return self.answers


@pytest.mark.parametrize(
    ("sync_flush", "sync_replication", "needed"),
    [(False, False, False), (True, False, True), (False, True, True), (True, True, True)],
)
def test_needed(sync_flush: bool, sync_replication: bool, needed: bool) -> None:
    assert Waiting(sync_flush=sync_flush, sync_replication=sync_replication).sends.needed is needed


def test_one_flush_answers_everything_below_it_in_order() -> None:
    waiting = Waiting(sync_flush=True, sync_replication=False)
    for end in (100, 200, 300):
        waiting.add(end)
    assert waiting.settle(flushed=99) == []
    assert waiting.settle(flushed=200) == [(100, 0), (200, 0)]
    assert waiting.settle(flushed=300) == [(300, 0)]


def test_flush_and_replication_are_both_needed() -> None:
    waiting = Waiting(sync_flush=True, sync_replication=True)
    waiting.add(100)
    assert waiting.settle(flushed=100) == []
    assert waiting.settle(flushed=0, replicated=100) == []
    assert waiting.settle(flushed=100) == [(100, 0)]


@pytest.mark.parametrize(
    ("now_ns", "flushed", "answers"),
    [
        (FLUSH_TIMEOUT_NS - 1, 0, []),
        (FLUSH_TIMEOUT_NS, 0, [(100, 10)]),
        (SLAVE_TIMEOUT_NS - 1, 100, []),
        (SLAVE_TIMEOUT_NS, 100, [(100, 12)]),
        (FLUSH_TIMEOUT_NS, 100, [(100, 12)]),
    ],
)
def test_time_outs(now_ns: int, flushed: int, answers: list[tuple[int, int]]) -> None:
    waiting = Waiting(sync_flush=True, sync_replication=True)
    waiting.add(100)
    assert waiting.settle(now_ns=now_ns, flushed=flushed) == answers


def test_without_a_usable_slave_the_answer_is_11_after_the_flush() -> None:
    waiting = Waiting(sync_flush=True, sync_replication=True)
    waiting.add(100, slave_usable=False)
    assert waiting.settle() == []
    assert waiting.settle(flushed=100) == [(100, 11)]


def test_replication_that_came_after_all_is_a_full_promise() -> None:
    waiting = Waiting(sync_flush=True, sync_replication=True)
    waiting.add(100, slave_usable=False)
    assert waiting.settle(flushed=100, replicated=100) == [(100, 0)]


def test_losing_the_last_slave_ends_the_wait_for_it() -> None:
    waiting = Waiting(sync_flush=False, sync_replication=True)
    waiting.add(100)
    assert waiting.settle() == []
    waiting.sends.slaves_lost()
    assert waiting.settle() == [(100, 11)]


def test_failed_disk_answers_every_send_with_10() -> None:
    waiting = Waiting(sync_flush=True, sync_replication=True)
    waiting.add(100)
    waiting.add(200, slave_usable=False)
    waiting.sends.fail_all()
    assert waiting.answers == [(100, 10), (200, 10)]
    assert len(waiting.sends) == 0


def test_next_deadline_is_the_next_one_of_the_head() -> None:
    waiting = Waiting(sync_flush=True, sync_replication=True)
    assert waiting.sends.next_deadline_ns(0) is None
    waiting.now_ns = 10
    waiting.add(100)
    waiting.now_ns = 20
    waiting.add(200)
    assert waiting.sends.next_deadline_ns(20) == 10 + SLAVE_TIMEOUT_NS
    assert waiting.sends.next_deadline_ns(10 + SLAVE_TIMEOUT_NS) == 10 + FLUSH_TIMEOUT_NS


def test_how_long_each_waited() -> None:
    waiting = Waiting(sync_flush=True, sync_replication=False)
    for now_ns, end in ((1_000_000, 100), (2_500_000, 200), (9_000_000, 300)):
        waiting.now_ns = now_ns
        waiting.add(end)
    assert waiting.settle(flushed=200, now_ns=9_000_000) == [(100, 0), (200, 0)]
    assert waiting.times.text().startswith("[<=0ms]:0 [0~10ms]:2 [10~50ms]:0 ")
    assert waiting.times.longest_ms == 8
    waiting.settle(flushed=300, now_ns=9_500_000)
    assert waiting.times.text().startswith("[<=0ms]:1 [0~10ms]:2 ")


def test_shorter_timeouts_hold_for_those_who_already_wait() -> None:
    waiting = Waiting(sync_flush=True, sync_replication=False)
    waiting.add(100)
    assert waiting.settle(now_ns=FLUSH_TIMEOUT_NS - 1) == []
    waiting.sends.flush_timeout_ns = 1_000
    assert waiting.settle() == [(100, int(ResponseCode.FLUSH_DISK_TIMEOUT))]
