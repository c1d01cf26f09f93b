"""Delayed messages: never early, never lost, the failed one first; clocks that step."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.broker.delivery.delayed_delivery import (
    RETRY_MS,
    DelayedDelivery,
    at_once_if_too_far,
    never_early,
)
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import Message, decode_records
from tests.system_under_test.broker.bench import Bench, Peer, send_ext
from tests.system_under_test.store.store_on_disk import SilentLog

LEVEL_1 = {"DELAY": "1"}  # 1 s


class DelayBench(Bench):
    """A bench with a delivery that is looked at by hand; its monotonic clock does not step."""

    def __init__(self) -> None:
        super().__init__()
        self.stepped_ms = 0
        wall_ms = self.clock.wall_ms
        self.clock.monotonic_ns = lambda: (wall_ms() - self.stepped_ms) * 1_000_000  # type: ignore[method-assign]
        self.delivery = self.new_delivery()

    def new_delivery(self) -> DelayedDelivery:
        delivery = DelayedDelivery(
            self.store,
            self.copies,
            self.statistics,
            self.clock,
            SilentLog(),
            levels_ms=self.config.delay_levels_ms,
            remaining_time=never_early,
        )
        delivery.begin({})
        return delivery

    def step(self, ms: int) -> None:
        self.clock.now_ms += ms
        self.stepped_ms += ms

    def deliver_due(self) -> int | None:
        wait_ms = self.delivery.deliver_due()
        self.publish()
        return wait_ms

    def delivered(self) -> list[bytes]:
        return [message.body for message in self.messages()]

    def messages(self) -> list[Message]:
        answer = self.pull()
        assert answer is not None
        return decode_records(answer.body)

    def delay(self, body: bytes, **properties: str) -> None:
        self.delivery.notice_clock_step()
        self.send(body=body, properties=properties)


def test_never_early_and_in_time() -> None:
    bench = DelayBench()
    assert bench.deliver_due() is None  # no message waits, so the broker needs no timer
    bench.delay(b"5 s", DELAY="2")
    bench.delay(b"1 s", DELAY="1")
    assert bench.deliver_due() == 1000
    bench.clock.move(0.999)
    assert bench.deliver_due() == 1
    assert bench.delivered() == []
    bench.clock.move(0.001)
    bench.deliver_due()
    assert bench.delivered() == [b"1 s"]
    bench.clock.move(3.999)
    assert bench.deliver_due() == 1
    bench.clock.move(0.001)
    bench.deliver_due()
    assert bench.delivered() == [b"1 s", b"5 s"]
    assert bench.deliver_due() is None


def test_delivered_message_is_as_sent() -> None:
    bench = DelayBench()
    bench.delay(b"x", DELAY="1", TAGS="TagA", KEYS="k")
    (hidden,) = bench.store.queue_view.entries("SCHEDULE_TOPIC_XXXX", 0, 0, 9)
    assert hidden.tags_code == bench.clock.now_ms + 1000
    bench.clock.move(1)
    bench.deliver_due()
    (message,) = bench.messages()
    assert (message.topic, message.queue_id, message.born_host) == (
        "TopicTest",
        0,
        ("10.0.0.9", 40_001),
    )
    assert message.properties["TAGS"] == "TagA"
    assert message.properties["DELAY"] == "1"
    assert message.store_timestamp_ms == bench.clock.now_ms
    (entry,) = bench.store.queue_view.entries("TopicTest", 0, 0, 9)
    assert entry.tags_code == 2598919


def test_failed_delivery_is_tried_again_at_the_same_offset() -> None:
    """RocketMQ issue 3966: it went on with the next one."""
    bench = DelayBench()
    bench.delay(bytes(600_000), DELAY="1")
    bench.delay(b"next", DELAY="1")
    bench.clock.move(1)
    bench.disk.fill()
    assert bench.deliver_due() == 100
    bench.publish()
    assert bench.store.queue_bounds("TopicTest", 0) == (0, 0)
    assert bench.refusals == 1
    bench.disk.free()
    bench.deliver_due()
    answers = [bench.pull(offset=offset) for offset in (0, 1)]
    bodies = [decode_records(answer.body)[0].body for answer in answers if answer is not None]
    assert bodies == [bytes(600_000), b"next"]


def test_progress_counts_only_what_is_safe() -> None:
    bench = DelayBench()
    bench.delay(b"x", DELAY="1")
    bench.clock.move(1)
    bench.delivery.deliver_due()
    assert bench.delivery.offsets() == {}  # the copy is not flushed
    bench.publish()
    assert bench.delivery.offsets() == {1: 1}
    again = bench.new_delivery()
    assert again.begin({1: 1}) == []
    assert again.deliver_due() is None


def test_after_the_clock_was_set_back_no_message_waits_for_those_before() -> None:
    """Times in the log stay those of the wrong clock."""
    bench = DelayBench()
    bench.step(3_600_000)
    bench.send()
    bench.step(-3_600_000)
    bench.delay(b"first", DELAY="2")
    bench.deliver_due()
    bench.clock.move(3)
    bench.delay(b"second", DELAY="2")
    bench.deliver_due()
    delivered = []
    for _ in range(7):
        bench.clock.move(1)
        bench.deliver_due()
        delivered.append(bench.delivered()[1:])
    first, both = [b"first"], [b"first", b"second"]
    assert delivered == [[], first, first, first, both, both, both]


@pytest.mark.parametrize("wrong", [7, 10**12])
def test_offset_beyond_the_queue_is_pulled_back(wrong: int) -> None:
    """RocketMQ issue 1869: that level was dead for good."""
    bench = DelayBench()
    bench.delay(b"x", DELAY="1")
    assert bench.delivery.begin({1: wrong}) == [f"level 1: {wrong} -> 1"]
    bench.delay(b"y", DELAY="1")
    bench.clock.move(1)
    bench.deliver_due()
    assert bench.delivered() == [b"y"]


def test_what_is_stored_and_not_visible_is_waited_for() -> None:
    bench = DelayBench()
    request = RemotingCommand.request(310, send_ext("TopicTest", properties=LEVEL_1), b"x")
    bench.send_processor.handle(Peer().connection, request)
    bench.clock.move(5)
    assert bench.delivery.deliver_due() == 100


def test_clock_set_forward_delivers_nothing_early() -> None:
    bench = DelayBench()
    bench.delay(b"first", DELAY="2")
    bench.delay(b"second", DELAY="2")
    bench.deliver_due()
    bench.step(3_600_000)
    bench.deliver_due()
    bench.delay(b"third", DELAY="2")
    bench.clock.move(4.9)
    bench.deliver_due()
    assert bench.delivered() == []
    bench.clock.move(0.1)
    for _ in range(3):
        bench.deliver_due()
    assert bench.delivered() == [b"first", b"second", b"third"]


def test_clock_set_back_delays_by_no_more_than_the_delay() -> None:
    bench = DelayBench()
    bench.delay(b"x", DELAY="2")
    bench.step(-3_600_000)
    bench.deliver_due()
    bench.delay(b"y", DELAY="2")  # its store time is that of x: store times never go back
    bench.clock.move(5)
    bench.deliver_due()
    assert bench.delivered() == [b"x"]
    bench.clock.move(5)
    bench.deliver_due()
    assert bench.delivered() == [b"x", b"y"]


def test_after_a_clock_was_set_back_messages_do_not_wait_one_after_the_other() -> None:
    bench = DelayBench()
    bench.delay(b"0", DELAY="2")
    bodies = [b"0"]
    for step in range(3):
        bench.step(-3_600_000)
        for number in range(4):
            bodies.append(b"%d %d" % (step, number))
            bench.delay(bodies[-1], DELAY="2")  # all with the same store time
    for _ in range(10):
        bench.clock.move(1)
        bench.deliver_due()
    assert bench.delivered() == bodies


@pytest.mark.parametrize(
    ("remaining", "careful", "faithful"), [(-5, -5, -5), (900, 900, 900), (1001, 1000, 0)]
)
def test_message_from_the_future(remaining: int, careful: int, faithful: int) -> None:
    assert never_early(remaining, 1000) == careful
    assert at_once_if_too_far(remaining, 1000) == faithful


LOG_FILE = "/store/commitlog/" + "0" * 20
FIRST_BODY_AT = 88


def test_damaged_message_stops_its_level_until_no_replica_can_mend_it() -> None:
    bench = DelayBench()
    bench.delay(b"x", DELAY="1")
    bench.delay(b"y", DELAY="1")
    bench.disk.open(LOG_FILE).pwrite(b"?", FIRST_BODY_AT)
    bench.clock.move(1)
    bench.deliver_due()
    assert bench.delivered() == []
    bench.store.give_up(0)
    bench.clock.move(1)
    bench.deliver_due()
    assert bench.delivered() == [b"y"]


def test_damaged_message_is_delivered_once_it_is_mended() -> None:
    bench = DelayBench()
    bench.delay(b"x", DELAY="1")
    copy = bench.store.look_up(0)
    assert copy is not None
    bench.disk.open(LOG_FILE).pwrite(b"?", FIRST_BODY_AT)
    asked: list[int] = []
    bench.store.when_damaged(asked.append)
    bench.clock.move(1)
    bench.deliver_due()
    assert (bench.delivered(), 0 in asked) == ([], True)
    assert bench.store.mend_record(0, copy)
    bench.clock.move(1)
    bench.deliver_due()
    assert bench.delivered() == [b"x"]


def test_many_are_delivered_in_several_looks() -> None:
    bench = DelayBench()
    for number in range(70):
        bench.delay(b"%d" % number, DELAY="1")
    bench.clock.move(1)
    assert bench.deliver_due() == 0
    bench.deliver_due()
    assert bench.store.queue_bounds("TopicTest", 0) == (0, 70)


def test_delivery_stays_before_an_entry_that_the_disk_has_lost() -> None:
    bench = DelayBench()
    bench.delay(b"x", DELAY="1")
    queue = "/store/consumequeue/SCHEDULE_TOPIC_XXXX/0/" + "0" * 20
    bench.publish()
    written = bench.disk.open(queue).pread(20, 0)
    bench.disk.open(queue).pwrite(bytes(20), 0)
    bench.clock.move(1)
    assert bench.deliver_due() == RETRY_MS
    assert bench.delivered() == []
    bench.disk.open(queue).pwrite(written, 0)
    bench.deliver_due()
    assert bench.delivered() == [b"x"]


def damaged_delivery(bench: DelayBench) -> int:
    """Deliver b"x", and damage the copy before it is safe; return its physical offset."""
    bench.delay(b"x", DELAY="1")
    bench.clock.move(1)
    bench.copies.safe_end = lambda: 0
    bench.deliver_due()
    (copy,) = bench.messages()
    bench.delivery.note_damage(copy.physical_offset)
    bench.copies.safe_end = lambda: bench.store.end_offset
    return copy.physical_offset


def test_a_delivery_that_is_lost_before_it_is_safe_is_repeated() -> None:
    """The disk changed it before a replica had it; the delayed message itself is sound."""
    bench = DelayBench()
    copy_offset = damaged_delivery(bench)
    assert bench.delivery.offsets() == {}
    assert bench.delivery.note_settled(copy_offset, is_lost=True)
    bench.deliver_due()
    assert bench.delivered() == [b"x", b"x"]
    assert bench.delivery.offsets() == {1: 1}
    assert not bench.delivery.note_settled(copy_offset, is_lost=True)
    assert bench.deliver_due() is None


def test_a_delivery_that_is_repaired_is_not_repeated() -> None:
    bench = DelayBench()
    copy_offset = damaged_delivery(bench)
    assert not bench.delivery.note_settled(copy_offset, is_lost=False)
    assert bench.delivery.offsets() == {1: 1}
    bench.deliver_due()
    assert bench.delivered() == [b"x"]


def test_a_lost_delivery_waits_for_the_repair_of_the_delayed_message() -> None:
    bench = DelayBench()
    copy_offset = damaged_delivery(bench)
    (source,) = bench.store.queue_view.entries("SCHEDULE_TOPIC_XXXX", 0, 0, 1)
    sound = bench.store.record_of(source)
    assert sound is not None
    body_at = source.physical_offset + sound.index(b"x", 80)
    log = "/store/commitlog/" + "0" * 20
    bench.disk.flip_bit(log, within=(body_at, body_at + 1))
    bench.delivery.note_settled(copy_offset, is_lost=True)
    assert bench.deliver_due() == RETRY_MS
    assert bench.delivered() == [b"x"]
    assert bench.store.mend_record(source.physical_offset, sound)
    bench.deliver_due()
    assert bench.delivered() == [b"x", b"x"]
