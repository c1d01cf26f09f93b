"""Polling members: queues that each one reads, redeliveries, and times of commits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from staticfire.harness.clients.consumer import ListenerControl, serve_consumer
from staticfire.harness.clients.consumer_kinds import CHOOSING, CONSUMER_KINDS, PULL, PUSH
from staticfire.harness.clients.polling import Callbacks, QueueReader, share_of
from staticfire.harness.clients.port import ClientPort
from staticfire.harness.simulation.hosts.world import World
from staticfire.system_under_test.client.consumer.pull.pull_consumer import PullConsumer
from staticfire.system_under_test.client.consumer.pulling import PullAnswer, PullOutcome
from staticfire.system_under_test.client.consumer.push.consumer_config import ConsumerConfig
from staticfire.system_under_test.client.errors import BrokerNotAvailable, BrokerRefused
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.remoting.errors import RemotingTimeout
from tests.system_under_test.client.simulated_cluster import TOPIC, Cluster

POLLED = [kind for kind in CONSUMER_KINDS if kind != PUSH]
each_kind = pytest.mark.parametrize("kind", POLLED)
QUEUE = MessageQueue(TOPIC, "a", 0)


class Members:
    """A cluster with members of one group, as the harness starts them, and what they report."""

    def __init__(self, kind: str) -> None:
        self.cluster = Cluster()
        self.kind = kind
        self.answered: list[tuple[str, str, str, dict[str, Any]]] = []  # member, type, f, value
        self.controls: dict[str, ListenerControl] = {}
        self.breaks = ""  # the op that cannot be reported

    def start(self, name: str, place: int, members: int) -> None:
        config = ConsumerConfig(
            group="g",
            topic=TOPIC,
            name_servers=self.cluster.name_servers,
            client_id=f"10.9.0.{place}@{name}",
            consume_batch=4,
        )
        control = ListenerControl(kind=self.kind, share=(place, members))
        self.controls[name] = control

        def emit(type: str, f: str, value: dict[str, Any], _error: str | None) -> None:
            if f == self.breaks:
                raise RuntimeError("the history is full")
            self.answered.append((name, type, f, value))

        port = ClientPort(cast(Any, emit))
        self.cluster.world.hosts[name].start(
            name, lambda env: serve_consumer(env, config, port, control)
        )

    def run(self, story: Callable[[], Awaitable[None]]) -> None:
        async def with_load() -> None:
            self.cluster.start_producer("p", until_s=6.0, every_s=0.05)
            await story()

        self.cluster.run(with_load, "p", "c1", "c2")

    def given(self, type: str, name: str | None = None) -> list[str]:
        """Keys of deliveries."""
        return [
            row[0]
            for member, answered, f, value in self.answered
            if f == "consume" and answered == type and name in (None, member)
            for row in value["messages"]
        ]

    def committed(self) -> dict[tuple[str, int], int]:
        return {
            (broker, queue): offset
            for _, _, f, value in self.answered
            if f == "commit"
            for broker, queue, offset in value["offsets"]
        }

    def all_sent(self) -> int:
        return len(self.cluster.sent)


@pytest.mark.slow
@each_kind
def test_two_members_consume_everything_and_commit_it(kind: str) -> None:
    members = Members(kind)

    async def story() -> None:
        members.start("c1", 0, 2)
        members.start("c2", 1, 2)
        await members.cluster.until(16.0)

    members.run(story)
    consumed = members.given("ok")
    assert len(set(consumed)) == members.all_sent() > 50
    assert sum(members.committed().values()) == members.all_sent()
    assert all(members.given("ok", name) for name in ("c1", "c2"))
    if kind in CHOOSING:  # nothing ever changed hands
        assert len(consumed) == members.all_sent()


@pytest.mark.slow
@each_kind
def test_a_batch_that_failed_comes_again_and_is_not_committed_before(kind: str) -> None:
    members = Members(kind)

    async def story() -> None:
        members.start("c1", 0, 1)
        members.controls["c1"].failing_share = 1.0
        await members.cluster.until(8.0)
        assert sum(members.committed().values()) == 0
        assert members.given("info")
        assert not members.given("ok")
        members.controls["c1"].failing_share = 0.0
        await members.cluster.until(20.0)

    members.run(story)
    assert len(members.given("ok")) == members.all_sent()
    assert sum(members.committed().values()) == members.all_sent()


@pytest.mark.slow
@each_kind
def test_what_a_member_is_busy_with_when_it_leaves_is_not_committed(kind: str) -> None:
    members = Members(kind)

    async def story() -> None:
        members.start("c1", 0, 1)
        await members.cluster.until(4.0)
        members.controls["c1"].delay_s = 60.0
        await members.cluster.until(7.0)
        members.cluster.process("c1").terminate()
        await members.cluster.until(10.0)
        members.start("c2", 0, 1)
        await members.cluster.until(20.0)

    members.run(story)
    begun = set(members.given("invoke", "c1")) - set(members.given("ok", "c1"))
    assert begun
    assert begun <= set(members.given("ok", "c2"))
    assert sum(members.committed().values()) == members.all_sent()


@pytest.mark.slow
def test_a_silent_broker_keeps_no_message_of_the_others_from_a_member_that_seeks() -> None:
    members = Members("lite-pull-assign")

    async def story() -> None:
        await members.cluster.until(3.0)
        members.cluster.world.hosts["b"].pause()
        members.start("c1", 0, 1)
        await members.cluster.until(5.0)
        assert members.given("ok")
        members.cluster.world.hosts["b"].resume()
        await members.cluster.until(16.0)

    members.run(story)
    assert set(members.given("ok")) >= {one.key for one in members.cluster.sent}


def test_kinds_that_choose_share_queues_out_and_never_move_one() -> None:
    queues = [MessageQueue(TOPIC, broker, number) for broker in "ab" for number in range(5)]
    shares = [share_of(queues, (place, 3)) for place in range(3)]
    assert sorted(queue for share in shares for queue in share) == queues
    more = [*queues, MessageQueue(TOPIC, "a", 5), MessageQueue(TOPIC, "c", 0)]
    assert all(set(share) <= set(share_of(more, (place, 3))) for place, share in enumerate(shares))


class Answering:
    """A PullConsumer that gives the scripted answers, and after them always "nothing new"."""

    def __init__(self, *answers: PullAnswer) -> None:
        self.answers = list(answers)
        self.asked: list[int] = []
        self.commits: list[int] = []
        self.errors: list[Exception] = []
        self.commit_s = 0.0
        self.pull_s = 0.0

    async def committed_offset(self, _: MessageQueue) -> int | None:
        return None

    async def min_offset(self, _: MessageQueue) -> int:
        return 7

    async def pull(self, _: MessageQueue, offset: int, **_options: Any) -> PullAnswer:
        self.asked.append(offset)
        await asyncio.sleep(self.pull_s)
        return self.answers.pop(0) if self.answers else answer(PullOutcome.NOTHING_NEW, offset)

    async def commit(self, _: MessageQueue, offset: int) -> None:
        await asyncio.sleep(self.commit_s)
        if self.errors:
            raise self.errors.pop(0)
        self.commits.append(offset)


def answer(outcome: PullOutcome, next_offset: int, **fields: Any) -> PullAnswer:
    given = {"messages": [], "min_offset": 0, "max_offset": 99, **fields}
    return PullAnswer(outcome=outcome, next_offset=next_offset, **given)


Offsets = list[dict[MessageQueue, int]]


def read(consumer: Answering, seconds: float) -> tuple[Offsets, Offsets]:
    """Read the queue for so long; returns what was reported as committed, and what as unclear."""
    reported: Offsets = []
    unclear: Offsets = []

    async def listener(_messages: list[Message], _queue: MessageQueue) -> bool:
        return True

    async def main() -> None:
        config = ConsumerConfig(group="g", topic=TOPIC, name_servers=("n:1",), client_id="c")
        pulling = cast(PullConsumer, consumer)
        callbacks = Callbacks(
            on_assignment=lambda _: None,
            on_commit=reported.append,
            on_commit_unclear=unclear.append,
            on_offset_read=lambda *_: None,
            on_commit_sent=lambda _: None,
        )
        reader = QueueReader(pulling, QUEUE, config, listener, callbacks)
        task = asyncio.get_running_loop().create_task(reader.run())
        await asyncio.sleep(seconds)
        task.cancel()

    World(1).run(main)
    return reported, unclear


def test_a_reader_begins_at_the_first_message_of_a_queue_without_an_offset() -> None:
    consumer = Answering(answer(PullOutcome.NOTHING_MATCHED, 9))
    read(consumer, 1.0)
    assert consumer.asked[:2] == [7, 9]


def test_a_reader_believes_a_correction_of_the_master_alone_and_only_the_third() -> None:
    of_slave = answer(PullOutcome.OFFSET_ILLEGAL, 0, broker_id=1)
    of_master = answer(PullOutcome.OFFSET_ILLEGAL, 3)
    consumer = Answering(*[of_slave] * 5)
    read(consumer, 8.0)
    assert set(consumer.asked) == {7}
    consumer = Answering(*[of_master] * 3)
    read(consumer, 4.0)
    assert consumer.asked[:4] == [7, 7, 7, 3]


def test_a_reader_commits_again_what_it_has_committed() -> None:
    """The disk that had it may be lost, and a slave may not have it yet."""
    consumer = Answering()
    reported, unclear = read(consumer, 11.0)
    assert consumer.commits == [7, 7]
    assert (reported, unclear) == ([{QUEUE: 7}] * 2, [])


def test_a_pull_that_no_replica_answers_delays_no_commit() -> None:
    """The reader pulls from a slave that stands still, and its master takes commits."""
    consumer = Answering()
    consumer.pull_s = 60.0
    reported, _ = read(consumer, 11.0)
    assert reported == [{QUEUE: 7}] * 2


@pytest.mark.parametrize(
    ("error", "is_unclear"),
    [
        (BrokerNotAvailable("no replica of a answers"), True),
        (RemotingTimeout("no answer in 3 s"), True),
        (BrokerRefused(ResponseCode.SYSTEM_ERROR, "no"), False),
    ],
)
def test_a_commit_without_an_answer_is_unclear(error: Exception, is_unclear: bool) -> None:
    consumer = Answering()
    consumer.errors = [error]
    assert read(consumer, 6.0) == ([], [{QUEUE: 7}] if is_unclear else [])


def test_a_commit_that_a_member_does_not_wait_for_any_more_is_unclear() -> None:
    consumer = Answering()
    consumer.commit_s = 9.0
    assert read(consumer, 8.0) == ([], [{QUEUE: 7}])


@pytest.mark.parametrize(
    ("kind", "f"),
    [
        *((kind, "consume") for kind in POLLED),
        *((kind, "begin") for kind in CHOOSING),
        (PULL, "commit"),
    ],
)
def test_a_member_that_cannot_report_ends(kind: str, f: str) -> None:
    members = Members(kind)
    members.breaks = f

    async def story() -> None:
        members.start("c1", 0, 1)
        await members.cluster.until(16.0)
        status = members.cluster.process("c1").exit.result()
        assert (status.kind, str(status.error)) == ("raised", "the history is full")

    members.run(story)
