"""Events of offsets out of range, and groups that are disabled because they are too slow."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.broker.pulling.slow_consumers import SlowConsumers
from staticfire.system_under_test.protocol.bodies import SubscriptionGroupConfig
from staticfire.system_under_test.protocol.bodies_queues import OffsetMovedEvent
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.message import decode_records
from tests.system_under_test.broker.admin_language import queue
from tests.system_under_test.broker.bench import Bench
from tests.system_under_test.store.store_on_disk import SilentLog

EVENTS = "OFFSET_MOVED_EVENT"


def test_a_corrected_offset_is_an_event(bench: Bench) -> None:
    bench.send("t")
    answer = bench.pull("t", offset=9, group="g")
    assert answer is not None
    assert answer.code == ResponseCode.PULL_OFFSET_MOVED
    bench.publish()
    reported = bench.pull(EVENTS)
    assert reported is not None
    (message,) = decode_records(reported.body)
    assert OffsetMovedEvent.from_bytes(message.body) == OffsetMovedEvent(
        consumer_group="g", message_queue=queue("t", 0), offset_request=9, offset_new=1
    )
    assert (message.properties["TAGS"], message.properties["KEYS"]) == ("g", "g")


def test_no_event_while_messages_cannot_be_stored(bench: Bench) -> None:
    bench.send("t")
    bench.is_ready = False
    bench.pull("t", offset=9)
    bench.publish()
    assert bench.store.queue_bounds(EVENTS, 0) == (0, 0)


def test_a_slave_tells_of_no_event(slave_bench: Bench) -> None:
    slave_bench.pull("t", offset=9)
    assert slave_bench.store.queue_bounds(EVENTS, 0) == (0, 0)
    assert slave_bench.store.end_offset == 0


@pytest.mark.parametrize(("enabled", "behind_max", "disabled"), [
    (False, 100, False),
    (True, 100, True),
    (True, 1 << 30, False),
])  # fmt: skip
def test_groups_too_far_behind(enabled: bool, behind_max: int, disabled: bool) -> None:
    bench = Bench(disable_slow_consumers=enabled, consumer_fall_behind_max=behind_max)
    for _ in range(5):
        bench.send("t")
    bench.pull("t", group="slow", count=1)
    bench.pull("t", group="fast", count=5)
    slow = SlowConsumers(bench.config, bench.store, bench.groups, bench.statistics, SilentLog())
    slow.check()
    groups = {name: bench.groups.get(name) for name in ("slow", "fast")}
    assert [group is not None and group.consume_enable for group in groups.values()] == [
        not disabled,
        True,
    ]
    if disabled:
        answer = bench.pull("t", group="slow", offset=1)
        assert answer is not None
        assert answer.code == ResponseCode.NO_PERMISSION
        bench.groups.put(SubscriptionGroupConfig(group_name="slow"))
        answer = bench.pull("t", group="slow", offset=1)
        assert answer is not None
        assert answer.code == ResponseCode.SUCCESS
