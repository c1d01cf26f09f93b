"""Queue locks against a plain model: who holds what, and until when."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from staticfire.system_under_test.broker.clients import queue_locks
from staticfire.system_under_test.broker.clients.queue_locks import (
    LOCK_LIVE_MAX_NS,
    NAMES_LENGTH_MAX,
    QueueLocks,
)
from tests.system_under_test.broker.admin_language import queue

GROUPS, CLIENTS, QUEUES = ("g", "h"), ("c1", "c2", "c3"), range(3)
subsets = st.lists(st.sampled_from(list(QUEUES)), unique=True)


def test_a_lock_expires_after_60_s_and_not_before() -> None:
    now_ns = 0
    expired: list[object] = []
    locks = QueueLocks(now_ns=lambda: now_ns, on_expired=lambda *what: expired.append(what))
    locks.lock("g", [queue("t", 0)], "c1")
    now_ns = LOCK_LIVE_MAX_NS
    assert locks.lock("g", [queue("t", 0)], "c2") == []
    assert expired == []
    assert locks.owner("g", queue("t", 0)) == "c1"
    now_ns += 1
    assert locks.owner("g", queue("t", 0)) is None
    assert locks.lock("g", [queue("t", 0)], "c2") == [queue("t", 0)]
    assert expired == [("g", queue("t", 0))]


def test_expired_locks_do_not_fill_the_memory() -> None:
    now_ns = 0
    locks = QueueLocks(now_ns=lambda: now_ns)
    locks.lock("g", [queue("t", number) for number in range(100)], "c1")
    now_ns = 40_000_000_000
    locks.lock("g", [queue("t", 7)], "c1")
    now_ns = 70_000_000_000
    locks.forget_expired()
    assert len(locks) == 1
    assert locks.owner("g", queue("t", 7)) == "c1"


class Locks(RuleBasedStateMachine):
    """The model remembers for each queue who asked last with success, and when."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = 0
        self.locks = QueueLocks(now_ns=lambda: self.now_ns)
        self.model: dict[tuple[str, int], tuple[str, int]] = {}

    def owner(self, group: str, number: int) -> str | None:
        client, since_ns = self.model.get((group, number), (None, 0))
        return client if self.now_ns - since_ns <= LOCK_LIVE_MAX_NS else None

    @rule(group=st.sampled_from(GROUPS), client=st.sampled_from(CLIENTS), numbers=subsets)
    def lock(self, group: str, client: str, numbers: list[int]) -> None:
        free = [number for number in numbers if self.owner(group, number) in (None, client)]
        got = self.locks.lock(group, [queue("t", number) for number in numbers], client)
        assert got == [queue("t", number) for number in free]
        for number in free:
            self.model[group, number] = (client, self.now_ns)

    @rule(group=st.sampled_from(GROUPS), client=st.sampled_from(CLIENTS), numbers=subsets)
    def unlock(self, group: str, client: str, numbers: list[int]) -> None:
        self.locks.unlock(group, [queue("t", number) for number in numbers], client)
        for number in numbers:
            if self.model.get((group, number), (None, 0))[0] == client:
                del self.model[group, number]

    @rule(seconds=st.sampled_from([1, 20, 60, 61]))
    def wait(self, seconds: int) -> None:
        self.now_ns += seconds * 1_000_000_000

    @rule()
    def forget_expired(self) -> None:
        self.locks.forget_expired()

    @invariant()
    def owners_agree(self) -> None:
        for group in GROUPS:
            for number in QUEUES:
                assert self.locks.owner(group, queue("t", number)) == self.owner(group, number)


TestLocks = pytest.mark.slow(Locks.TestCase)


def test_only_the_holder_frees_a_queue() -> None:
    locks = QueueLocks(now_ns=lambda: 0)
    locks.lock("g", [queue("t", 0)], "c1")
    locks.unlock("g", [queue("t", 0), queue("t", 1)], "c2")
    assert locks.owner("g", queue("t", 0)) == "c1"
    locks.unlock("g", [queue("t", 1), queue("t", 0)], "c1")
    assert locks.owner("g", queue("t", 0)) is None
    assert len(locks) == 0


def test_locks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_locks, "LOCKS_MAX", 3)
    locks = QueueLocks(now_ns=lambda: 0)
    wanted = [queue("t", number) for number in range(5)]
    assert locks.lock("g", wanted, "c1") == wanted[:3]
    assert locks.lock("h", wanted, "c1") == []
    assert locks.lock("g", wanted, "c1") == wanted[:3]  # they are renewed
    locks.unlock("g", wanted[:1], "c1")
    assert locks.lock("h", wanted, "c2") == wanted[:1]
    assert len(locks) == 3


def test_no_queue_with_a_name_that_is_too_long_is_locked() -> None:
    locks = QueueLocks(now_ns=lambda: 0)
    assert locks.lock("g", [queue("t" * NAMES_LENGTH_MAX, 0), queue("t", 0)], "c1") == [
        queue("t", 0)
    ]
    assert locks.lock("g" * NAMES_LENGTH_MAX, [queue("t", 1)], "c1") == []
    assert len(locks) == 1
