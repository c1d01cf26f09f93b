"""The retry ladder against a model, by Hypothesis: any order of failures, of waiting, of full disks and new lives.

A group consumes a topic and its retry topic. What its listener fails for is sent back; if that fails, too, the client
sends the message to the retry topic itself, or keeps it and tries again. In the end each message is consumed or dead.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from staticfire.system_under_test.protocol.bodies import SubscriptionGroupConfig
from staticfire.system_under_test.protocol.message import Message
from tests.system_under_test.broker.delivery.test_delayed_delivery import DelayBench
from tests.system_under_test.broker.delivery.test_send_back import SEND_BACK

pytestmark = pytest.mark.slow

RETRY, DEAD = "%RETRY%g", "%DLQ%g"
LADDER_FIRST_LEVEL = 3
LEVEL_MAX = 18


@dataclass
class Fate:
    """What has become of one message."""

    failures: int = 0  # that the broker knows of
    deliveries: int = 0
    due_ms: int = 0  # not before then
    consumed: int = 0
    dead: bool = False


class Retries(RuleBasedStateMachine):
    """Delivered once for each failure, and once at first; never early; dead after the last try, once."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = DelayBench()
        self.fates: dict[bytes, Fate] = {}
        self.places = {"TopicTest": 0, RETRY: 0}
        self.in_hand: list[Message] = []
        self.limit = 16

    @initialize(limit=st.sampled_from([1, 2, 16]))
    def configure(self, limit: int) -> None:
        self.limit = limit
        self.bench.groups.put(SubscriptionGroupConfig(group_name="g", retry_max_times=limit))
        self.bench.topics.create_retry_topic("g", 1)  # as with the first heartbeat

    @rule()
    def send(self) -> None:
        body = b"%d" % len(self.fates)
        self.bench.send(body=body)
        self.fates[body] = Fate()

    @rule()
    def pull(self) -> None:
        self.bench.deliver_due()
        for topic, place in self.places.items():
            found = self.bench.stored(topic)[place:]
            self.places[topic] += len(found)
            for message in found:
                self.deliver(message)

    def deliver(self, message: Message) -> None:
        fate = self.fates[message.body]
        assert not fate.dead, "a dead letter came again"
        assert self.bench.clock.now_ms >= fate.due_ms, "too early"
        assert message.reconsume_times == fate.failures
        fate.deliveries += 1
        self.in_hand.append(message)

    @rule()
    def consume(self) -> None:
        if self.in_hand:
            self.fates[self.in_hand.pop().body].consumed += 1

    @rule(asked=st.sampled_from([0, 0, 0, 0, 1, 7, -1]))
    def fail(self, asked: int) -> None:
        """The listener fails, and the message is sent back."""
        if not self.in_hand:
            return
        message = self.in_hand.pop(0)
        fate = self.fates[message.body]
        ext = {"offset": str(message.physical_offset), "group": "g", "delayLevel": str(asked)}
        self.bench.delivery.notice_clock_step()
        answer = self.bench.ask_service(SEND_BACK, ext)
        assert answer is not None
        assert answer.code == 0, answer.remark
        fate.dead = asked < 0 or fate.failures >= self.limit
        fate.failures += 1
        level = asked if asked > 0 else LADDER_FIRST_LEVEL + message.reconsume_times
        self.wait_for_level(fate, level)

    @rule(sends_itself=st.booleans())
    def fail_on_a_full_disk(self, sends_itself: bool) -> None:
        """The send-back fails. A little later the client sends a copy itself, or it tries the listener again."""
        if not self.in_hand:
            return
        message = self.in_hand.pop(0)
        ext = {"offset": str(message.physical_offset), "group": "g", "delayLevel": "0"}
        self.bench.disk.fill()
        answer = self.bench.ask_service(SEND_BACK, ext)
        self.bench.disk.free()
        assert answer is not None
        if answer.code == 0:  # there was room for one more in the file
            fate = self.fates[message.body]
            fate.dead = fate.failures >= self.limit
            fate.failures += 1
            self.wait_for_level(fate, LADDER_FIRST_LEVEL + message.reconsume_times)
        elif sends_itself:
            self.send_copy(message)
        else:
            self.in_hand.append(message)

    def send_copy(self, message: Message) -> None:
        times = message.reconsume_times
        properties = message.properties | {
            "RETRY_TOPIC": "TopicTest",
            "DELAY": str(LADDER_FIRST_LEVEL + times),
        }
        for name in ("REAL_TOPIC", "REAL_QID"):
            properties.pop(name, None)
        fate = self.fates[message.body]
        answer = self.bench.send(
            RETRY, body=message.body, properties=properties, j=times + 1, l=self.limit
        )
        assert answer.code == 0, answer.remark
        # One try fewer than by a send-back, as in RocketMQ: the count includes this failure.
        fate.dead = times + 1 >= self.limit
        fate.failures += 1
        self.wait_for_level(fate, LADDER_FIRST_LEVEL + times)

    def wait_for_level(self, fate: Fate, level: int) -> None:
        delay_ms = self.bench.config.delay_levels_ms[min(level, LEVEL_MAX) - 1]
        fate.due_ms = self.bench.clock.now_ms + delay_ms

    @rule(seconds=st.sampled_from([1, 9, 30, 600, 7200]))
    def wait(self, seconds: int) -> None:
        self.bench.clock.now_ms += seconds * 1000

    @rule()
    def begin_again(self) -> None:
        """A new life that knows how far the levels were."""
        offsets = self.bench.delivery.offsets()
        self.bench.delivery = self.bench.new_delivery()
        assert self.bench.delivery.begin(offsets) == []

    @invariant()
    def no_delivery_too_many(self) -> None:
        for fate in self.fates.values():
            assert fate.deliveries <= 1 + min(fate.failures, self.limit)
            assert fate.consumed <= 1

    @invariant()
    def dead_letters_are_those_of_the_model(self) -> None:
        dead = Counter(message.body for message in self.bench.stored(DEAD))
        assert dead == Counter(body for body, fate in self.fates.items() if fate.dead)

    def teardown(self) -> None:
        """Consume whatever comes: then nothing is open."""
        for _ in range(3):
            self.wait(7200)
            self.pull()
            while self.in_hand:
                self.consume()
        for fate in self.fates.values():
            assert fate.consumed == (not fate.dead)
            assert fate.deliveries == fate.failures + 1 - fate.dead


Retries.TestCase.settings = settings(max_examples=40, stateful_step_count=50)
TestRetries = Retries.TestCase


def test_a_message_that_always_fails_climbs_the_whole_ladder() -> None:
    """What random steps seldom reach: 17 deliveries, then a dead letter."""
    machine = Retries()
    machine.configure(16)
    machine.send()
    machine.pull()
    for level in range(3, 19):
        machine.fail(0)
        delay_ms = machine.bench.config.delay_levels_ms[level - 1]
        machine.bench.clock.now_ms += delay_ms - 1
        machine.pull()
        assert machine.in_hand == []
        machine.bench.clock.now_ms += 1
        machine.pull()
        assert len(machine.in_hand) == 1
    machine.fail(0)
    assert machine.fates[b"0"].dead
    machine.dead_letters_are_those_of_the_model()
    machine.teardown()
