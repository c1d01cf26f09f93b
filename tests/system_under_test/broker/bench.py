"""A broker without sockets and without a loop: processors on a store on a simulated disk, time moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from types import FunctionType
from typing import Any, cast

import pytest

from staticfire.harness.simulation.disk.disk import SimDisk
from staticfire.system_under_test.broker.administration.administration import Administration
from staticfire.system_under_test.broker.administration.figures import queue_figures
from staticfire.system_under_test.broker.assembly.request_table import make_handlers
from staticfire.system_under_test.broker.clients.client_requests import (
    ClientRequests,
    notify_consumers_changed,
)
from staticfire.system_under_test.broker.clients.clients import Clients
from staticfire.system_under_test.broker.config import BrokerConfig, BrokerRole
from staticfire.system_under_test.broker.delivery.message_services import MessageServices
from staticfire.system_under_test.broker.flow_control.request_classes import make_limits
from staticfire.system_under_test.broker.flow_control.request_queue import RequestQueue
from staticfire.system_under_test.broker.metadata.consumer_filters import ConsumerFilters
from staticfire.system_under_test.broker.metadata.offset_commits import OffsetCommits
from staticfire.system_under_test.broker.metadata.offsets import ConsumerOffsets
from staticfire.system_under_test.broker.metadata.subscription_groups import SubscriptionGroups
from staticfire.system_under_test.broker.metadata.topics import TopicChange, Topics
from staticfire.system_under_test.broker.policies.policies import BROKER_POLICIES
from staticfire.system_under_test.broker.pulling.held_pulls import HeldPulls
from staticfire.system_under_test.broker.pulling.overtaken_pulls import OvertakenPulls
from staticfire.system_under_test.broker.pulling.pull import PullProcessor
from staticfire.system_under_test.broker.pulling.pull_filters import PullFilters
from staticfire.system_under_test.broker.pulling.pull_reports import PullReports
from staticfire.system_under_test.broker.queries.message_queries import MessageQueries
from staticfire.system_under_test.broker.queries.queue_queries import QueueQueries
from staticfire.system_under_test.broker.replication.ha_requests import HaRequests
from staticfire.system_under_test.broker.sending.internal_copies import InternalCopies
from staticfire.system_under_test.broker.sending.pending_sends import Answer
from staticfire.system_under_test.broker.sending.send import SendProcessor
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import (
    ONEWAY_FLAG,
    RemotingCommand,
    decode_command,
)
from staticfire.system_under_test.protocol.message import Message, decode_record, encode_properties
from staticfire.system_under_test.remoting import Connection, Handler
from staticfire.system_under_test.remoting.connection import failed
from staticfire.system_under_test.remoting.turn_share import TurnShare
from staticfire.system_under_test.runtime.env import Env
from staticfire.system_under_test.store.appending.config import StoreConfig
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.metadata_file import MetadataFile
from tests.system_under_test.store.store_on_disk import SilentLog


class HandClock:
    """A clock that stands still until the test moves it."""

    def __init__(self) -> None:
        self.now_ms = 1_600_000_000_000

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000

    def move(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)


class Peer:
    """The client's end of a connection: remembers what the broker sends."""

    def __init__(self, key: int = 1) -> None:
        self.key = key
        self.remote_host = "10.0.0.9"
        self.remote_port = 40_000 + key
        self.closed = False
        self.sent: list[RemotingCommand] = []
        self.asked: list[tuple[RemotingCommand, float, asyncio.Future[RemotingCommand]]] = []

    def send(self, command: RemotingCommand) -> None:
        if not self.closed:
            self.sent.append(command)

    def serve(self, request: RemotingCommand, handler: Handler) -> None:
        if (response := handler(self.connection, request)) is not None:
            self.send(response)

    @property
    def address(self) -> str:
        return f"{self.remote_host}:{self.remote_port}"

    def send_frame(self, frame: bytes) -> None:
        self.send(decode_command(frame[4:]))

    def invoke_oneway(self, command: RemotingCommand) -> None:
        command.flag |= ONEWAY_FLAG
        self.send(command)

    def invoke_nowait(
        self, command: RemotingCommand, timeout_s: float
    ) -> asyncio.Future[RemotingCommand]:
        """What the broker asks of the client: the test answers the last of `asked`."""
        self.send(command)
        answer: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
        self.asked.append((command, timeout_s, answer))
        return answer

    def close(self) -> None:
        self.closed = True

    @property
    def connection(self) -> Connection:
        if not isinstance(Connection.send, FunctionType):
            pytest.skip("compiled code takes no other class for a compiled connection")
        return cast(Connection, self)

    def take(self) -> RemotingCommand:
        """The only command sent since the last take."""
        (command,) = self.sent
        self.sent.clear()
        return command


class Bench:
    """Everything between the connection and the disk."""

    def __init__(self, role: BrokerRole = BrokerRole.ASYNC_MASTER, **options: Any) -> None:
        self.clock = HandClock()
        self.disk = SimDisk(random=Random(1), now_ns=lambda: 0, charge=lambda cost_ns: None)
        self.config = BrokerConfig(
            broker_name="broker-a",
            broker_id=0 if role is not BrokerRole.SLAVE else 1,
            role=role,
            listen_host="10.0.0.1",
            store_path="/store",
            default_topic_queues=8,
            **options,
        )
        log = SilentLog()
        self.store = MessageStore(
            self.disk,
            self.clock,
            log,
            StoreConfig(
                root="/store",
                commit_log_file_size=1 << 20,
                consume_queue_file_size=20_000,
                index_slots=100,
                index_numbers=1000,
                pull_limits=self.config,
                extends_queues=self.config.extends_queues,
                extension_file_size=65_536,
            ),
        )
        self.store.open()
        self.topic_changes = 0
        self.topics = Topics(
            self.config,
            MetadataFile(self.disk, "/store/config/topics.json"),
            now_ms=self.clock.wall_ms,
            on_change=self._count_topic_change,
        )
        self.topics.load()
        self.groups = SubscriptionGroups(
            self.config,
            MetadataFile(self.disk, "/store/config/subscriptionGroup.json"),
            now_ms=self.clock.wall_ms,
        )
        self.policies = BROKER_POLICIES[self.config.mode]
        self.filters = ConsumerFilters(
            self.config,
            now_ms=self.clock.wall_ms,
            queued_end=lambda: self.store.dispatched_offset,
        )
        self.share = TurnShare()
        self.clients = Clients(
            now_ns=self.clock.monotonic_ns,
            notify=notify_consumers_changed,
            on_empty=self.filters.unregister,
            share=self.share,
        )
        pull_filters = PullFilters(
            self.config, self.groups, self.clients, self.filters, self.policies.filters
        )
        self.offsets = ConsumerOffsets()
        self.held = HeldPulls(held_max=4, held_of_one_max=2)
        self.is_ready = True
        self.pulls_wait = False
        self.waiting: list[tuple[int, Answer, bool]] = []
        self.refusals = 0
        env = Env(name="broker", storage=self.disk, clock=self.clock, random=Random(2), log=log)
        self.administration = Administration(
            env,
            self.config,
            self.policies.admin,
            self.store,
            self.topics,
            self.groups,
            self.offsets,
            self.clients,
            self.filters,
            pull_filters,
        )
        self.statistics = self.administration.statistics
        queues = {name: RequestQueue(limits) for name, limits in make_limits(self.config).items()}
        self.administration.figures.append(lambda: queue_figures(queues, self.clock.monotonic_ns))
        self.services = self._make_services(env)
        self.send_processor = SendProcessor(
            self.config,
            self.store,
            self.topics,
            self.groups,
            Random(1),
            is_ready=lambda: self.is_ready,
            acknowledge=self._acknowledge,
            on_refusal=self._count_refusal,
            redirection=self.services.redirection,
            statistics=self.statistics,
            now_ms=self.clock.wall_ms,
            now_ns=self.clock.monotonic_ns,
            share=self.share,
        )
        overtaken = OvertakenPulls(lambda: self.pulls_wait)
        self.pull_processor = PullProcessor(
            self.config,
            self.store,
            self.topics,
            self.groups,
            pull_filters,
            self.offsets,
            self.held,
            overtaken,
            is_ready=lambda: self.is_ready,
            now_ns=self.clock.monotonic_ns,
            reports=PullReports(
                self.config,
                self.statistics,
                self.administration.rates,
                self.copies,
                is_ready=lambda: self.is_ready,
                now_ms=self.clock.wall_ms,
                now_ns=self.clock.monotonic_ns,
            ),
            share=self.share,
        )
        self.queries = QueueQueries(
            self.config,
            self.store,
            self.offsets,
            OffsetCommits(self.offsets, self.topics, self.groups),
            overtaken,
        )
        self.message_queries = MessageQueries(self.config, self.store)
        self.client_requests = ClientRequests(
            self.clients, self.topics, self.groups, self.filters, is_slave=self.config.is_slave
        )
        self.handlers = make_handlers(
            self.send_processor,
            self.pull_processor,
            self.queries,
            self.message_queries,
            self.client_requests,
            self.administration.handlers(),
            HaRequests(self._lift_catch_up, is_slave=self.config.is_slave),
        ) | self.services.handlers(self.send_processor)

    def _make_services(self, env: Env) -> MessageServices:
        policies = self.policies.services
        self.copies = InternalCopies(
            self.store,
            policies.copies,
            self.statistics,
            acknowledge=self._acknowledge,
            safe_end=lambda: self.store.flushed_offset,
            on_refusal=self._count_refusal,
        )
        return MessageServices(
            env,
            self.config,
            policies,
            self.store,
            self.topics,
            self.groups,
            self.clients,
            self.offsets,
            self.copies,
            self.statistics,
            MetadataFile(self.disk, "/store/config/delayOffset.json"),
            is_ready=lambda: self.is_ready,
        )

    def _acknowledge(self, end_offset: int, answer: Answer, waits: bool) -> None:
        self.waiting.append((end_offset, answer, waits))

    async def _lift_catch_up(self) -> bool:
        return False

    def _count_topic_change(self, _change: TopicChange) -> None:
        self.topic_changes += 1

    def _count_refusal(self) -> None:
        self.refusals += 1

    def ask(
        self,
        handler: Callable[[Connection, RemotingCommand], RemotingCommand | None],
        ext: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        code: int = 0,
        peer: Peer | None = None,
    ) -> RemotingCommand:
        """Ask one handler; it must answer at once."""
        request = RemotingCommand.request(code, ext or {}, body)
        response = handler((peer or Peer()).connection, request)
        assert response is not None
        return response

    def request(
        self,
        code: int,
        ext: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        peer: Peer | None = None,
    ) -> RemotingCommand:
        """Call the handler of this code; it must answer at once. A ValueError is code 1, as on a connection."""
        try:
            return self.ask(self.handlers[code], ext, body, code=code, peer=peer)
        except ValueError as error:
            return failed(RemotingCommand.request(code), error)

    def ask_service(
        self, code: int, ext: dict[str, str], body: bytes = b""
    ) -> RemotingCommand | None:
        """Ask the handler of a code; publish if it does not answer at once. None: it never answers."""
        peer = Peer()
        request = RemotingCommand.request(code, ext, body)
        response = self.services.handlers(self.send_processor)[code](peer.connection, request)
        if response is not None:
            return response
        self.publish()
        return peer.take() if peer.sent else None

    def stored(self, topic: str, queue_id: int = 0) -> list[Message]:
        """Every visible message of a queue."""
        found = []
        for entry in self.store.queue_view.entries(topic, queue_id, 0, 1000):
            record = self.store.look_up(entry.physical_offset)
            assert record is not None
            found.append(decode_record(record, check_crc=True))
        return found

    def publish(self) -> None:
        """Answer the waiting sends, flush, and make everything visible."""
        for _, answer, _ in self.waiting:
            answer(ResponseCode.SUCCESS)
        self.waiting.clear()
        task = self.store.begin_flush()
        if task is not None:
            task.run()
            self.store.finish_flush(task)
        self.pull_processor.messages_arrived(self.store.dispatch())

    def send(
        self, topic: str = "TopicTest", *, body: bytes = b"hello", **options: Any
    ) -> RemotingCommand:
        """Send one message (V2 header) and publish it; return the answer."""
        peer = Peer()
        request = RemotingCommand.request(310, send_ext(topic, **options), body)
        response = self.send_processor.handle(peer.connection, request)
        if response is not None:
            return response
        self.publish()
        return peer.take()

    def pull(
        self, topic: str = "TopicTest", *, peer: Peer | None = None, **options: Any
    ) -> RemotingCommand | None:
        """Pull from queue 0, with the subscription `*` in the request; None if the pull is held."""
        request = RemotingCommand.request(11, pull_ext(topic, **options))
        return self.pull_processor.handle((peer or Peer()).connection, request)


def send_ext(
    topic: str,
    *,
    queue_id: int = 0,
    properties: dict[str, str] | None = None,
    default_topic: str = "TBW102",
    default_queues: int = 4,
    sys_flag: int = 0,
    **fields: object,
) -> dict[str, str]:
    """Fields of SEND_MESSAGE_V2; `fields` replaces short names."""
    ext = {
        "a": "producers",
        "b": topic,
        "c": default_topic,
        "d": str(default_queues),
        "e": str(queue_id),
        "f": str(sys_flag),
        "g": "1600000000000",
        "h": "0",
        "i": encode_properties(properties or {}).decode(),
    }
    return ext | {name: str(value) for name, value in fields.items()}


def pull_ext(
    topic: str,
    *,
    offset: int = 0,
    queue_id: int = 0,
    sys_flag: int = 4,
    subscription: str = "*",
    sub_version: int = 0,
    commit_offset: int = 0,
    hold_ms: int = 15_000,
    count: int = 32,
    group: str = "consumers",
    expression_type: str = "TAG",
) -> dict[str, str]:
    """Fields of PULL_MESSAGE; sysFlag 1 commits, 2 may be held, 4 brings its subscription."""
    return {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(count),
        "sysFlag": str(sys_flag),
        "commitOffset": str(commit_offset),
        "suspendTimeoutMillis": str(hold_ms),
        "subscription": subscription,
        "subVersion": str(sub_version),
        "expressionType": expression_type,
    }
