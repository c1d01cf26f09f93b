"""A group member against scripted brokers that know the group's members."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from staticfire.system_under_test.client.consumer.push.consumer_config import ConsumerConfig
from staticfire.system_under_test.client.consumer.push.push_consumer import PushConsumer
from staticfire.system_under_test.client.consumer.queue_puller import FlowLimits
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.remoting import Handler
from tests.system_under_test.client.consumer.test_queue_consumer import FakeQueue, broker
from tests.system_under_test.client.scripted_remoting import (
    Answer,
    Script,
    ScriptedRemoting,
    answer_code,
    answer_route,
    by_code,
    make_env,
    route_of,
    stay_silent,
)
from tests.system_under_test.client.virtual_time import in_virtual_time, now_s


class Group:
    """The members that brokers list."""

    def __init__(self, *ids: str) -> None:
        self.ids = list(ids)

    def answer(self, request: RemotingCommand) -> Answer:
        body = json_dialect.dumps({"consumerIdList": self.ids})
        return RemotingCommand.response(request, ResponseCode.SUCCESS, body=body)


class Member:
    """Consumer c1 of a group on brokers a and b, with four queues of ten messages each, and no retry topic."""

    def __init__(self, remoting: ScriptedRemoting, group: Group, **options: Any) -> None:
        self.remoting = remoting
        self.group = group
        self.well: Script = by_code(c38=group.answer, other=broker(FakeQueue(10).pull))
        self.seen: list[tuple[str, int]] = []
        self.shares: list[str] = []
        self.commits: list[dict[MessageQueue, int]] = []
        remoting.scripts.update(
            {"n": answer_route(route_of("a", "b")), "a:0": self.well, "b:0": self.well}
        )
        self.consumer = PushConsumer(
            make_env(),
            ConsumerConfig(
                group="g",
                name_servers=("n",),
                client_id="c1",
                topic="t",
                sends_back=False,
                **options,
            ),
            self._listen,
            on_assignment=lambda queues: self.shares.append(text_of(queues)),
            on_commit=self.commits.append,
        )

    async def _listen(self, messages: list[Message], queue: MessageQueue) -> bool:
        self.seen += [(queue.broker_name, message.queue_offset) for message in messages]
        return True

    def notify(self) -> None:
        """Code 40 from a broker."""
        handler = self.remoting.on_request
        assert callable(handler)
        serve: Handler = handler
        request = RemotingCommand.request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, oneway=True)
        assert serve(None, request) is None  # type: ignore[arg-type]


def text_of(queues: list[MessageQueue]) -> str:
    return " ".join(f"{queue.broker_name}{queue.queue_id}" for queue in queues)


@in_virtual_time
async def test_a_lone_member_consumes_everything_and_commits(remoting: ScriptedRemoting) -> None:
    member = Member(remoting, Group("c1"))
    await member.consumer.start()
    await asyncio.sleep(6.0)
    assert member.shares == ["a0 a1 b0 b1"]
    assert len(member.seen) == 40
    assert set(member.commits[-1].values()) == {10}
    assert len(remoting.calls_to("a:0", RequestCode.UPDATE_CONSUMER_OFFSET)) == 2


@in_virtual_time
async def test_a_new_member_takes_its_share_at_once(remoting: ScriptedRemoting) -> None:
    member = Member(remoting, Group("c1"))
    await member.consumer.start()
    await asyncio.sleep(1.0)
    member.group.ids = ["c0", "c1"]
    member.notify()
    await asyncio.sleep(0.1)
    assert member.shares == ["a0 a1 b0 b1", "b0 b1"]
    assert text_of(sorted(member.commits[-1])) == "a0 a1"  # what was lost is committed first


@pytest.mark.parametrize(
    ("limits", "cached"),
    [
        (FlowLimits(count_max=4), 5),
        (FlowLimits(count_max=4, topic_count_max=24), 7),  # 24 for four queues
        (FlowLimits(topic_count_max=3), 2),  # each may have one at least
        (FlowLimits(topic_size_bytes_max=1), 10),  # a MiB at least
    ],
)
@in_virtual_time
async def test_the_limit_of_a_topic_is_shared_out_among_its_queues(
    remoting: ScriptedRemoting, limits: FlowLimits, cached: int
) -> None:
    """RocketMQ: pullThresholdForTopic; pulling stops when there is more than the limit."""
    member = Member(remoting, Group("c1"), limits=limits, pull_batch=1, consume_batch=1)
    replace_listener(member.consumer, hang)
    await member.consumer.start()
    await asyncio.sleep(6.0)
    table = member.consumer.running_info().mq_table
    assert [info.cached_msg_count for info in table.values()] == [cached] * 4


@in_virtual_time
async def test_a_list_without_ourselves_takes_nothing_away(remoting: ScriptedRemoting) -> None:
    member = Member(remoting, Group("c1"))
    await member.consumer.start()
    await asyncio.sleep(1.0)
    member.group.ids = ["c2"]
    heartbeats = len(remoting.calls_to("a:0", RequestCode.HEART_BEAT))
    member.notify()
    await asyncio.sleep(2.0)
    assert member.shares == ["a0 a1 b0 b1"]
    assert len(remoting.calls_to("a:0", RequestCode.HEART_BEAT)) > heartbeats


@in_virtual_time
async def test_a_new_member_is_not_held_up_by_a_broker_that_plays_dead(
    remoting: ScriptedRemoting,
) -> None:
    member = Member(remoting, Group("c1"))
    remoting.scripts["a:0"] = stay_silent
    await member.consumer.start()
    await asyncio.sleep(1.0)
    assert member.seen == [("b", offset) for _ in range(2) for offset in range(10)]


@in_virtual_time
async def test_a_running_member_goes_on_while_one_broker_plays_dead(
    remoting: ScriptedRemoting,
) -> None:
    queue = FakeQueue(10)
    member = Member(remoting, Group("c1"))
    remoting.scripts["b:0"] = by_code(c38=member.group.answer, other=broker(queue.pull))
    await member.consumer.start()
    await asyncio.sleep(1.0)
    remoting.scripts["a:0"] = stay_silent
    remoting.close_connection("a:0")
    await asyncio.sleep(120.0)
    queue.end = 20
    remoting.close_connection("b:0")  # the fake holds pulls for ever
    member.notify()
    await asyncio.sleep(2.0)
    assert member.seen.count(("b", 19)) == 2
    assert member.shares == ["a0 a1 b0 b1"]


@in_virtual_time
async def test_silence_behind_a_held_pull_is_found_out(remoting: ScriptedRemoting) -> None:
    member = Member(remoting, Group("c1"))
    await member.consumer.start()
    await asyncio.sleep(1.0)
    remoting.scripts["a:0"] = stay_silent
    await asyncio.sleep(4.0)
    assert not member.consumer._client.health.is_answering("a:0")
    assert member.consumer._client.health.is_answering("b:0")


@in_virtual_time
async def test_a_connection_that_ends_without_a_request_under_way_is_noticed(
    remoting: ScriptedRemoting,
) -> None:
    """Full caches stop the pulls, so no request fails. A broker that has restarted must be greeted again."""
    member = Member(remoting, Group("c1"), limits=FlowLimits(count_max=1), pull_batch=2)
    replace_listener(member.consumer, hang)
    await member.consumer.start()
    await asyncio.sleep(1.0)
    remoting.disconnected.add("b:0")
    remoting.calls.clear()
    await asyncio.sleep(1.0)
    greeted = [c.address for c in remoting.calls if c.command.code == RequestCode.HEART_BEAT]
    assert greeted == ["b:0"]


@in_virtual_time
async def test_a_new_queue_is_consumed_as_soon_as_the_route_shows_it(
    remoting: ScriptedRemoting,
) -> None:
    member = Member(remoting, Group("c1"))
    await member.consumer.start()
    await asyncio.sleep(1.0)
    remoting.scripts["n"] = answer_route(route_of("a", "b", queues=3))
    await asyncio.sleep(2.0)
    assert member.shares[-1] == "a0 a1 a2 b0 b1 b2"


@in_virtual_time
async def test_consumption_goes_on_when_the_name_server_forgets_everything(
    remoting: ScriptedRemoting,
) -> None:
    member = Member(remoting, Group("c1"))
    await member.consumer.start()
    await asyncio.sleep(1.0)
    remoting.scripts["n"] = answer_code(ResponseCode.TOPIC_NOT_EXIST)
    await asyncio.sleep(40.0)
    remoting.scripts["n"] = answer_route(route_of("a"))  # a has registered again, b has not yet
    await asyncio.sleep(40.0)
    remoting.scripts["n"] = answer_route(route_of("a", "b"))
    await asyncio.sleep(200.0)
    assert member.shares == ["a0 a1 b0 b1"]


@in_virtual_time
async def test_stop_waits_for_the_listener_commits_and_says_goodbye(
    remoting: ScriptedRemoting,
) -> None:
    member = Member(remoting, Group("c1"))
    await member.consumer.start()
    await asyncio.sleep(1.0)
    await member.consumer.stop()
    codes = [call.command.code for call in remoting.calls if call.address == "a:0"]
    assert codes[-3:] == [
        RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.UNREGISTER_CLIENT,
    ]
    asked = len(remoting.calls)
    await asyncio.sleep(60.0)
    assert len(remoting.calls) == asked


@in_virtual_time
async def test_stop_is_bounded_when_the_listener_hangs(remoting: ScriptedRemoting) -> None:
    member = Member(remoting, Group("c1"))
    replace_listener(member.consumer, hang)
    await member.consumer.start()
    await asyncio.sleep(1.0)
    started_s = now_s()
    await member.consumer.stop()
    assert now_s() - started_s < 3.0
    assert all(offset == 0 for commit in member.commits for offset in commit.values())


async def hang(*_: object) -> bool:
    await asyncio.sleep(1000.0)
    return True


def replace_listener(consumer: PushConsumer, listener: Callable[..., object]) -> None:
    object.__setattr__(consumer._parts, "listener", listener)
