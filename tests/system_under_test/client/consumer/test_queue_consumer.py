"""One queue against scripted brokers: a master at a:0 and its slave at a:1."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from staticfire.system_under_test.client.consumer.consume_figures import ConsumeFigures
from staticfire.system_under_test.client.consumer.consumption import ConsumerParts
from staticfire.system_under_test.client.consumer.pull.pull_consumer import PullConsumerConfig
from staticfire.system_under_test.client.consumer.push.consumer_parts import listening_consumer
from staticfire.system_under_test.client.consumer.queue_puller import FlowLimits
from staticfire.system_under_test.client.consumer.subscription import Subscription
from staticfire.system_under_test.client.offsets.offset_store import OffsetStore
from staticfire.system_under_test.client.offsets.queue_bounds import ConsumeFrom
from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.client.routing.routes import BrokerRoute, broker_routes
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import Message, encode_record
from staticfire.system_under_test.remoting import RemotingClosed
from tests.system_under_test.client.scripted_remoting import (
    LATENCY_S,
    Answer,
    Script,
    ScriptedRemoting,
    answer_code,
    by_code,
    make_env,
    route_of,
    stay_silent,
)
from tests.system_under_test.client.virtual_time import in_virtual_time, now_s

QUEUE = MessageQueue(topic="t", broker_name="a", queue_id=0)
PULL = RequestCode.PULL_MESSAGE


def make_client() -> ClientInstance:
    return ClientInstance(make_env(), PullConsumerConfig(client_id="c", name_servers=(), group="g"))


class FakeQueue:
    """What a broker holds of the queue: messages with the offsets `start` to `end`, and no long polling."""

    def __init__(self, end: int, *, start: int = 0, tag: str = "") -> None:
        self.start = start
        self.end = end
        self.tag = tag
        self.suggests = 0  # broker id

    def pull(self, request: RemotingCommand) -> Answer:
        offset = int(request.ext_fields["queueOffset"])
        if offset == self.end:
            return None  # held
        if not self.start <= offset <= self.end:
            corrected = self.end if offset > self.end else self.start
            return self._answer(request, ResponseCode.PULL_OFFSET_MOVED, corrected)
        last = min(offset + int(request.ext_fields["maxMsgNums"]), self.end)
        body = b"".join(self._record(number) for number in range(offset, last))
        return self._answer(request, ResponseCode.SUCCESS, last, body)

    def _record(self, offset: int) -> bytes:
        properties = {"TAGS": self.tag} if self.tag else {}
        message = Message(
            topic="t", body=b"%d" % offset, queue_offset=offset, properties=properties
        )
        return bytes(encode_record(message))

    def _answer(
        self, request: RemotingCommand, code: int, next_offset: int, body: bytes = b""
    ) -> RemotingCommand:
        ext = {
            "nextBeginOffset": str(next_offset),
            "minOffset": str(self.start),
            "maxOffset": str(self.end),
            "suggestWhichBrokerId": str(self.suggests),
        }
        return RemotingCommand.response(request, code, "", ext, body)


def broker(pull: Script, *, stored: int | None = 0) -> Script:
    """A broker with this answer to pulls and this stored offset (None: code 22)."""
    offset = (
        answer_code(ResponseCode.QUERY_NOT_FOUND)
        if stored is None
        else answer_code(ResponseCode.SUCCESS, offset=str(stored))
    )
    end = answer_code(ResponseCode.SUCCESS, offset="40")
    return by_code(c11=pull, c14=offset, c30=end, other=answer_code(ResponseCode.SUCCESS))


class Consumption:
    """A queue consumer whose listener fails where `fails` says."""

    def __init__(
        self,
        remoting: ScriptedRemoting,
        *,
        master: Script,
        slave: Script | None = None,
        consume_from: ConsumeFrom = ConsumeFrom.FIRST_OFFSET,
        expression: str = "*",
        limits: FlowLimits | None = None,
        consume_batch: int = 4,
    ) -> None:
        self.remoting = remoting
        self.seen: list[int] = []
        self.fails: dict[int, int] = {}  # offset: how many times
        self.blocked: asyncio.Event | None = None
        remoting.scripts["a:0"] = master
        if slave is not None:
            remoting.scripts["a:1"] = slave
        self.client = make_client()
        self.client.routes.update(
            "t", broker_routes(route_of("a", slaves=slave is not None)), now_s()
        )
        parts = ConsumerParts(
            client=self.client,
            group="g",
            subscription=Subscription("t", expression, version_ms=1),
            offsets=OffsetStore(self.client, "g"),
            listener=self._listen,
            consume_from=consume_from,
            pull_batch=8,
            consume_batch=consume_batch,
            limits=limits or FlowLimits(),
            figures=ConsumeFigures(),
        )
        self.queue = listening_consumer(parts, QUEUE)
        self.queue.start()

    async def _listen(self, batch: list[Message], queue: MessageQueue) -> bool:
        assert queue == QUEUE
        if self.blocked is not None:
            await self.blocked.wait()
        for message in batch:
            self.seen.append(message.queue_offset)
            if self.fails.get(message.queue_offset, 0) > 0:
                self.fails[message.queue_offset] -= 1
                raise RuntimeError("the listener fails")
        return True

    def pulled_from(self, address: str) -> list[int]:
        calls = self.remoting.calls_to(address, PULL)
        return [int(call.command.ext_fields["queueOffset"]) for call in calls]


@in_virtual_time
async def test_everything_is_consumed_in_order_and_may_be_committed(
    remoting: ScriptedRemoting,
) -> None:
    consumption = Consumption(remoting, master=broker(FakeQueue(20).pull))
    await asyncio.sleep(1.0)
    assert consumption.seen == list(range(20))
    assert consumption.queue.commit_offset == 20
    assert consumption.pulled_from("a:0") == [0, 8, 16, 20]


@in_virtual_time
async def test_consumption_starts_at_the_stored_offset(remoting: ScriptedRemoting) -> None:
    consumption = Consumption(remoting, master=broker(FakeQueue(20).pull, stored=15))
    await asyncio.sleep(1.0)
    assert consumption.seen == list(range(15, 20))


@pytest.mark.parametrize(
    ("consume_from", "first"), [(ConsumeFrom.FIRST_OFFSET, 0), (ConsumeFrom.LAST_OFFSET, 40)]
)
@in_virtual_time
async def test_without_a_stored_offset(
    remoting: ScriptedRemoting, consume_from: ConsumeFrom, first: int
) -> None:
    master = broker(FakeQueue(40).pull, stored=None)
    consumption = Consumption(remoting, master=master, consume_from=consume_from)
    await asyncio.sleep(0.01)
    assert consumption.pulled_from("a:0")[0] == first


@pytest.mark.parametrize(
    "failure",
    [
        stay_silent,
        answer_code(ResponseCode.SYSTEM_ERROR),
        answer_code(ResponseCode.SUCCESS),  # without an offset
        lambda _: RemotingClosed("reset"),
    ],
)
@in_virtual_time
async def test_an_error_is_never_taken_for_the_beginning(
    remoting: ScriptedRemoting, failure: Script
) -> None:
    works = broker(FakeQueue(20).pull, stored=15)
    fails = by_code(c14=failure, other=works)
    consumption = Consumption(remoting, master=fails)
    await asyncio.sleep(7.0)
    assert consumption.queue.commit_offset is None
    assert consumption.pulled_from("a:0") == []
    remoting.scripts["a:0"] = works
    await asyncio.sleep(7.0)
    assert consumption.seen == list(range(15, 20))


@in_virtual_time
async def test_a_new_group_that_wants_what_is_new_does_not_start_at_the_end_of_a_slave(
    remoting: ScriptedRemoting,
) -> None:
    consumption = Consumption(
        remoting,
        master=lambda _: RemotingClosed("killed"),
        slave=broker(FakeQueue(20).pull, stored=None),
        consume_from=ConsumeFrom.LAST_OFFSET,
    )
    await asyncio.sleep(10.0)
    assert consumption.queue.commit_offset is None


@in_virtual_time
async def test_a_message_that_fails_comes_again_and_holds_the_offset(
    remoting: ScriptedRemoting,
) -> None:
    consumption = Consumption(remoting, master=broker(FakeQueue(10).pull), consume_batch=1)
    consumption.fails = {3: 2}
    await asyncio.sleep(4.9)
    assert consumption.seen == list(range(10))
    assert consumption.queue.commit_offset == 3
    await asyncio.sleep(6.0)
    assert consumption.seen == [*range(10), 3, 3]
    assert consumption.queue.commit_offset == 10


@in_virtual_time
async def test_only_matching_tags_are_consumed_and_the_offset_moves_on(
    remoting: ScriptedRemoting,
) -> None:
    master = broker(FakeQueue(10, tag="red").pull)
    consumption = Consumption(remoting, master=master, expression="green || blue")
    await asyncio.sleep(1.0)
    assert consumption.seen == []
    assert consumption.queue.commit_offset == 10


@in_virtual_time
async def test_times_of_the_figures_are_those_of_the_wall_clock(remoting: ScriptedRemoting) -> None:
    consumption = Consumption(
        remoting, master=broker(FakeQueue(100).pull), limits=FlowLimits(count_max=10)
    )
    consumption.blocked = asyncio.Event()
    await asyncio.sleep(5.0)
    last_pull_s = consumption.remoting.calls_to("a:0", PULL)[-1].at_s
    since_pull_ms = round((now_s() - last_pull_s) * 1000)
    wall_ms = consumption.client.env.clock.wall_ms()
    info = consumption.queue.info(locked_at_s=asyncio.get_running_loop().time() - 2.0)
    assert since_pull_ms > 4_000
    assert abs(info.last_pull_timestamp - (wall_ms - since_pull_ms)) <= 1
    assert info.last_lock_timestamp == wall_ms - 2_000
    assert info.last_consume_timestamp == 0  # the listener has finished nothing


@in_virtual_time
async def test_pulling_stops_while_the_listener_is_behind(remoting: ScriptedRemoting) -> None:
    consumption = Consumption(
        remoting, master=broker(FakeQueue(100).pull), limits=FlowLimits(count_max=10)
    )
    consumption.blocked = asyncio.Event()
    await asyncio.sleep(5.0)
    assert consumption.pulled_from("a:0") == [0, 8]
    consumption.blocked.set()
    await asyncio.sleep(1.0)
    assert consumption.seen == list(range(100))


@pytest.mark.parametrize(("span_max", "pulls"), [(15, [0, 8, 16]), (14, [0, 8])])
@in_virtual_time
async def test_pulling_stops_when_what_is_here_spans_too_many_offsets(
    remoting: ScriptedRemoting, span_max: int, pulls: list[int]
) -> None:
    """RocketMQ: the last offset minus the first one is more than consumeConcurrentlyMaxSpan."""
    consumption = Consumption(
        remoting, master=broker(FakeQueue(100).pull), limits=FlowLimits(span_max=span_max)
    )
    consumption.blocked = asyncio.Event()
    await asyncio.sleep(5.0)
    assert consumption.pulled_from("a:0") == pulls


@pytest.mark.parametrize(
    ("code", "pause_s"), [(ResponseCode.FLOW_CONTROL, 0.02), (ResponseCode.SYSTEM_ERROR, 1.0)]
)
@in_virtual_time
async def test_a_broker_that_refuses_pulls_for_now_is_asked_again_soon(
    remoting: ScriptedRemoting, code: ResponseCode, pause_s: float
) -> None:
    consumption = Consumption(remoting, master=broker(answer_code(code)))
    await asyncio.sleep(5.0)
    pulls = [call.at_s for call in consumption.remoting.calls_to("a:0", PULL)]
    gaps = {round(later - earlier, 4) for earlier, later in pairwise(pulls)}
    assert gaps == {round(pause_s + LATENCY_S, 4)}


@in_virtual_time
async def test_when_the_master_falls_silent_its_slave_is_asked_and_then_the_master_again(
    remoting: ScriptedRemoting,
) -> None:
    master, slave = FakeQueue(10), FakeQueue(20)
    consumption = Consumption(remoting, master=broker(master.pull), slave=broker(slave.pull))
    await asyncio.sleep(1.0)
    remoting.scripts["a:0"] = stay_silent
    consumption.client.health.ping("a:0")
    consumption.client.consumer = None
    await asyncio.sleep(1.1)
    consumption.queue.replicas_changed()
    await asyncio.sleep(0.1)
    assert consumption.seen == list(range(20))
    master.end = 30
    remoting.scripts["a:0"] = broker(master.pull)
    await asyncio.sleep(3.1)
    consumption.queue.replicas_changed()
    await asyncio.sleep(0.1)
    assert consumption.seen == list(range(30))
    assert consumption.pulled_from("a:1") == [10, 18, 20]


@in_virtual_time
async def test_a_pull_of_before_the_queue_was_dropped_changes_nothing(
    remoting: ScriptedRemoting,
) -> None:
    consumption = Consumption(remoting, master=broker(FakeQueue(8).pull))
    await asyncio.sleep(0.0015)  # the first pull is on its way
    consumption.queue.drop()
    await asyncio.sleep(1.0)
    assert consumption.seen == []
    assert consumption.pulled_from("a:0") == [0]


@in_virtual_time
async def test_an_offset_beyond_the_end_is_corrected_when_the_master_insists(
    remoting: ScriptedRemoting,
) -> None:
    queue = FakeQueue(10)
    consumption = Consumption(remoting, master=broker(queue.pull, stored=50))
    await asyncio.sleep(1.5)
    queue.end = 60  # it had not yet found its whole queue
    await asyncio.sleep(1.0)
    assert consumption.seen == list(range(50, 60))
    queue.end = 20
    consumption.queue.replicas_changed()
    remoting.close_connection("a:0")
    await asyncio.sleep(5.0)
    assert consumption.queue.commit_offset == 20
    commits = remoting.calls_to("a:0", RequestCode.UPDATE_CONSUMER_OFFSET)
    assert commits[-1].command.ext_fields["commitOffset"] == "20"


@in_virtual_time
async def test_a_slave_that_lags_corrects_nothing(remoting: ScriptedRemoting) -> None:
    consumption = Consumption(
        remoting,
        master=lambda _: RemotingClosed("killed"),
        slave=broker(FakeQueue(10).pull, stored=50),
    )
    await asyncio.sleep(20.0)
    assert consumption.queue.commit_offset == 50
    assert consumption.seen == []


@in_virtual_time
async def test_it_pulls_from_the_broker_that_is_suggested_and_commits_nothing_there(
    remoting: ScriptedRemoting,
) -> None:
    master, slave = FakeQueue(40), FakeQueue(40)
    master.suggests = 1
    consumption = Consumption(remoting, master=broker(master.pull), slave=broker(slave.pull))
    await asyncio.sleep(1.0)
    assert consumption.seen == list(range(40))
    assert consumption.pulled_from("a:0") == [0, 16, 32]
    assert consumption.pulled_from("a:1") == [8, 24, 40]
    flags = [int(call.command.ext_fields["sysFlag"]) & 1 for call in remoting.calls_to("a:1", PULL)]
    assert flags == [0, 0, 0]


@pytest.mark.parametrize(
    ("ids", "wanted", "chosen"),
    [
        ((0, 1, 2), 0, 0),
        ((0, 1, 2), 2, 2),
        ((0, 2), 1, 2),  # the next id
        ((0, 3), 1, 0),
        ((1, 2), 0, 1),  # the master is gone
    ],
)
@in_virtual_time
async def test_the_replica_to_pull_from(
    remoting: ScriptedRemoting, ids: tuple[int, ...], wanted: int, chosen: int
) -> None:
    client = make_client()
    addresses = {broker_id: f"a:{broker_id}" for broker_id in ids}
    route = BrokerRoute(
        broker_name="a", read_queues=1, write_queues=1, permission=6, addresses=addresses
    )
    client.routes.update("t", {"a": route}, now_s())
    assert client.replica("a", wanted) == (chosen, f"a:{chosen}")
