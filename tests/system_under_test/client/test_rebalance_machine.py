"""Any history of joins, leaves, crashes, lost answers and broker restarts: no queue is ever with two members in order.

The members decide with the real parts (allocation, lock table), the broker with its real locks. Between them is a
network that loses answers, and every member hears of changes when Hypothesis wants it to.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from staticfire.system_under_test.broker.clients.queue_locks import QueueLocks
from staticfire.system_under_test.client.consumer.rebalance.allocation import Allocate, strategy
from staticfire.system_under_test.client.consumer.rebalance.lock_table import LockTable
from staticfire.system_under_test.protocol.bodies import MessageQueue

pytestmark = pytest.mark.slow

GROUP = "g"
NAMES = ("c1", "c2", "c3")
BROKER_WAITS_S = 60.0
names = st.sampled_from(NAMES)


class Member:
    """What one client believes."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.locks = LockTable()
        self.members: list[str] = []  # that it has heard of
        self.queues: list[MessageQueue] = []  # of the topic, as its route says
        self.owned: list[MessageQueue] = []
        self.busy: list[MessageQueue] = []  # its listener has messages of these


class Rebalancing(RuleBasedStateMachine):
    """One broker, one topic, members that come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1000.0
        self.broker = QueueLocks(now_ns=lambda: int(self.now_s * 1e9))
        self.queues = [MessageQueue("t", "a", number) for number in range(4)]
        self.alive: dict[str, Member] = {}
        self.allocate: Allocate = strategy("AVG")

    # Members

    @rule(name=names)
    def join(self, name: str) -> None:
        if name not in self.alive:
            self.alive[name] = Member(name)

    @rule(name=names)
    def crash(self, name: str) -> None:
        """What it had locked stays locked until the broker has waited long enough."""
        self.alive.pop(name, None)

    @rule(name=names)
    def leave(self, name: str) -> None:
        member = self.alive.pop(name, None)
        if member is not None:
            self.broker.unlock(GROUP, [q for q in member.owned if q not in member.busy], name)

    @rule(name=names)
    def hear(self, name: str) -> None:
        """Of members and queues as they are now."""
        if name in self.alive:
            self.alive[name].members = list(self.alive)
            self.alive[name].queues = list(self.queues)

    @rule()
    def every_member_hears_and_rebalances(self) -> None:
        for name in list(self.alive):
            self.hear(name)
        for name in list(self.alive):
            self.rebalance(name, is_answered=True)

    @rule(name=names, is_answered=st.booleans())
    def rebalance(self, name: str, is_answered: bool) -> None:
        """As Assignment.take_share: give up what the listener has finished, then lock what is won."""
        member = self.alive.get(name)
        if member is None or name not in member.members:
            return
        share = self.allocate(member.queues, member.members, name)
        for queue in [q for q in member.owned if q not in share and q not in member.busy]:
            member.owned.remove(queue)
            member.locks.forget(queue)
            self.broker.unlock(GROUP, [queue], name)
        won = [q for q in share if q not in member.owned and q not in member.busy]
        granted = self.broker.lock(GROUP, won, name)
        if is_answered:
            for queue in granted:
                member.locks.granted(queue, self.now_s)
                member.owned.append(queue)

    @rule(name=names, late_s=st.floats(0.0, 1.0), is_answered=st.booleans())
    def renew(self, name: str, late_s: float, is_answered: bool) -> None:
        member = self.alive.get(name)
        if member is None:
            return
        asked_at_s = self.now_s
        granted = self.broker.lock(GROUP, member.locks.queues, name)
        self.now_s += late_s
        if is_answered:
            for queue in member.locks.queues:
                if queue in granted:
                    member.locks.granted(queue, asked_at_s)
                else:
                    self._lose(member, [queue])

    @rule(name=names, place=st.integers(0, 7))
    def listen(self, name: str, place: int) -> None:
        """Begin a call, if the lock is good, or end one."""
        member = self.alive.get(name)
        if member is None or not member.owned:
            return
        queue = member.owned[place % len(member.owned)]
        if queue in member.busy:
            member.busy.remove(queue)
        elif member.locks.is_held(queue, self.now_s):
            member.busy.append(queue)

    # The world

    @rule(seconds=st.sampled_from((0.1, 1.0, 10.0, 29.0, 31.0, 61.0)))
    def time_passes(self, seconds: float) -> None:
        """No call of a listener takes as long as the broker waits beyond the client: 30 s."""
        self.now_s += seconds
        for member in self.alive.values():
            self._lose(member, member.locks.take_expired(self.now_s))
            if seconds > 5.0:
                member.busy.clear()

    @rule()
    def broker_restarts(self) -> None:
        """It has forgotten all locks; every member has noticed that its connection ended."""
        self.broker = QueueLocks(now_ns=lambda: int(self.now_s * 1e9))
        for member in self.alive.values():
            self._lose(member, member.locks.take_of(["a"]))
            member.busy.clear()

    @precondition(lambda self: len(self.queues) < 8)
    @rule()
    def topic_grows(self) -> None:
        self.queues.append(MessageQueue("t", "a", len(self.queues)))

    def _lose(self, member: Member, lost: list[MessageQueue]) -> None:
        for queue in lost:
            member.locks.forget(queue)
            member.owned.remove(queue)

    # What must hold

    @invariant()
    def no_queue_is_with_two_members(self) -> None:
        holders = [
            queue
            for member in self.alive.values()
            for queue in self.queues
            if member.locks.is_held(queue, self.now_s)
        ]
        assert len(holders) == len(set(holders))

    @invariant()
    def a_member_that_believes_to_hold_a_queue_holds_it(self) -> None:
        for member in self.alive.values():
            for queue in member.owned:
                if member.locks.is_held(queue, self.now_s):
                    assert self.broker.owner(GROUP, queue) == member.client_id

    def teardown(self) -> None:
        """When all members have heard of each other, each queue has exactly one owner, a minute later at the latest."""
        for member in self.alive.values():
            member.busy.clear()
        for _ in range(2):
            self.now_s += BROKER_WAITS_S + 1.0
            for member in list(self.alive.values()):
                self._lose(member, member.locks.take_expired(self.now_s))
                self.hear(member.client_id)
                self.rebalance(member.client_id, is_answered=True)
        for name in list(self.alive):
            self.rebalance(name, is_answered=True)
        owned = sorted(queue for member in self.alive.values() for queue in member.owned)
        assert owned == (self.queues if self.alive else [])


TestRebalancing = Rebalancing.TestCase
TestRebalancing.settings = settings(max_examples=40, stateful_step_count=50)
