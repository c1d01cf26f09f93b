"""Delays and transactions against models, by Hypothesis: any order of sends, ends, checks, full disks and new lives."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import Message, decode_record
from tests.system_under_test.broker.bench import Peer
from tests.system_under_test.broker.delivery.test_delayed_delivery import DelayBench
from tests.system_under_test.broker.delivery.test_transactions import (
    COMMIT,
    PARKED,
    RESUME,
    ROLLBACK,
    TransactionBench,
)

pytestmark = pytest.mark.slow

DELAYS_MS = {1: 1_000, 2: 5_000, 3: 10_000}
CHECKS_MAX = 3
SETTINGS = settings(max_examples=40, stateful_step_count=30)


class DelayedMessages(RuleBasedStateMachine):
    """A message is delivered at least once, once in one life, never before its delay is over."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = DelayBench()
        self.due_ms: dict[bytes, int] = {}  # by the clock that does not step
        self.delivered: Counter[bytes] = Counter()
        self.lives = 1
        self.has_stepped = False
        self.saved: dict[int, int] = {}

    def running_ms(self) -> int:
        return self.bench.clock.monotonic_ns() // 1_000_000

    @rule(level=st.sampled_from(sorted(DELAYS_MS)))
    def send(self, level: int) -> None:
        body = b"%d" % len(self.due_ms)
        self.bench.delivery.notice_clock_step()
        if self.bench.send(body=body, properties={"DELAY": str(level)}).code == 0:
            self.due_ms[body] = self.running_ms() + DELAYS_MS[level]

    @rule(ms=st.sampled_from([1, 500, 999, 1000, 5000]))
    def wait(self, ms: int) -> None:
        self.bench.clock.now_ms += ms

    @rule(ms=st.sampled_from([-3_600_000, -700, 700, 3_600_000]))
    def step_clock(self, ms: int) -> None:
        self.has_stepped = True
        self.deliver_due()  # the broker looks every second while something waits
        self.bench.step(ms)
        self.deliver_due()

    @rule()
    def deliver_due(self) -> None:
        self.bench.deliver_due()
        self.collect()

    @rule()
    def fail_to_deliver(self) -> None:
        self.bench.disk.fill()
        self.bench.delivery.deliver_due()
        self.bench.disk.free()
        self.bench.publish()
        self.collect()

    @rule()
    def save(self) -> None:
        self.saved = self.bench.delivery.offsets()

    @precondition(lambda self: not self.has_stepped)
    @rule()
    def begin_again(self) -> None:
        """A new life knows what was saved. It cannot know of a clock that was set in an earlier one."""
        self.bench.delivery = self.bench.new_delivery()
        assert self.bench.delivery.begin(self.saved) == []
        self.lives += 1

    def collect(self) -> None:
        bodies = [message.body for message in self.bench.stored("TopicTest")]
        for body, count in (Counter(bodies) - self.delivered).items():
            assert self.running_ms() >= self.due_ms[body], body
            self.delivered[body] += count

    @invariant()
    def delivered_once_a_life(self) -> None:
        assert max(self.delivered.values(), default=0) <= self.lives

    def teardown(self) -> None:
        for _ in range(60):
            self.bench.clock.now_ms += 1000
            self.deliver_due()
        assert self.delivered.keys() == self.due_ms.keys()


class Transactions(RuleBasedStateMachine):
    """What is committed is visible once, what is rolled back never; in the end nothing is open.

    The broker may ask any producer of the group. After three questions without an answer, a transaction is parked, and
    may be revived.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bench = TransactionBench()
        self.decided: dict[bytes, int] = {}
        self.halves: list[Message] = []  # as their producer knows them
        self.bench.config.transaction_check_max = CHECKS_MAX
        self.other = Peer(key=8)  # a second producer of the group
        self.connected = [self.bench.producer]
        self.revived: set[int] = set()  # places of parked copies

    @rule(how=st.sampled_from([COMMIT, ROLLBACK]), immunity_s=st.sampled_from([None, 1, 90, 3600]))
    def send(self, how: int, immunity_s: int | None) -> None:
        body = b"%d" % len(self.halves)
        properties = {"UNIQ_KEY": f"U{len(self.halves)}"}
        if immunity_s is not None:
            properties["CHECK_IMMUNITY_TIME_IN_SECONDS"] = str(immunity_s)
        self.halves.append(self.bench.half(body, None, **properties))
        self.decided[body] = how

    @rule(number=st.integers(0, 50))
    def end(self, number: int) -> None:
        """Perhaps for the second time, perhaps long after the half message was put back."""
        if self.halves:
            half = self.halves[number % len(self.halves)]
            self.bench.end(half, self.decided[half.body])

    @rule(after_s=st.sampled_from([1, 60, 1000]), answers=st.booleans())
    def check(self, after_s: int, answers: bool) -> None:
        for check in self.ask(after_s):
            shown = decode_record(check.body, check_crc=True)
            shown.queue_offset = int(check.ext_fields["tranStateTableOffset"])
            assert not self.is_visible(shown.body), "asked about a transaction that is over"
            if answers:
                assert self.bench.code_of_end(shown, self.decided[shown.body]) == 0

    def ask(self, after_s: float) -> list[RemotingCommand]:
        """One round; what the producers of the group were asked, each in its turn."""
        asked = self.bench.check(after_s)
        theirs, self.other.sent = self.other.sent, []
        assert not asked or self.bench.producer in self.connected
        assert not theirs or self.other in self.connected
        if len(self.connected) == 2:
            assert abs(len(asked) - len(theirs)) <= 1
        return asked + theirs

    @rule()
    def revive(self) -> None:
        """An administrator has what was given up looked at again, each time that it was given up."""
        for parked in self.bench.stored(PARKED):
            if parked.physical_offset in self.revived or self.is_visible(parked.body):
                continue
            message_id = f"0A00000100002A9F{parked.physical_offset:016X}"
            answer = self.bench.ask_service(RESUME, {"msgId": message_id})
            assert answer is not None
            assert answer.code == 0, answer.remark
            self.revived.add(parked.physical_offset)

    @rule()
    def fail_to_check(self) -> None:
        if not self.bench.stored("RMQ_SYS_TRANS_HALF_TOPIC"):
            return
        self.ask(0)
        self.bench.disk.fill()
        self.ask(0)
        self.bench.disk.free()

    @rule(is_other=st.booleans())
    def producer_comes_or_goes(self, is_other: bool) -> None:
        peer = self.other if is_other else self.bench.producer
        if peer in self.connected:
            self.bench.clients.connection_closed(peer.connection)
            self.connected.remove(peer)
        else:
            self.bench.connect(peer, client_id=f"p@{peer.connection.key}")
            self.connected.append(peer)

    @rule()
    def begin_again(self) -> None:
        """A new life after a graceful stop: what was safe is saved."""
        self.ask(0)
        self.bench.services = self.bench._make_services(self.bench.services._env)
        self.bench.begin()

    def is_visible(self, body: bytes) -> bool:
        return body in self.bench.visible()

    @invariant()
    def only_what_is_committed_is_visible_and_once(self) -> None:
        for body, count in Counter(self.bench.visible()).items():
            assert count == 1
            assert self.decided[body] == COMMIT

    def teardown(self) -> None:
        if not self.connected:
            self.producer_comes_or_goes(False)
        for _ in range(5):
            self.check(1000, True)
        self.revive()  # whatever was given up ends then
        self.check(1000, True)
        committed = {body for body, how in self.decided.items() if how == COMMIT}
        assert committed == set(self.bench.visible())
        assert self.ask(60) == []


DelayedMessages.TestCase.settings = SETTINGS
Transactions.TestCase.settings = settings(SETTINGS, max_examples=20)
TestDelayedMessages = DelayedMessages.TestCase
TestTransactions = Transactions.TestCase
