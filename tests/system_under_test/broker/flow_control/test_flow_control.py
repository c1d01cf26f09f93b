"""A broker whose disk stalls: who is refused, who waits, and that nothing refused was stored."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from staticfire.harness.simulation.disk.disk import DiskOptions
from staticfire.harness.simulation.hosts.world import World
from staticfire.system_under_test.broker.administration.figures import flow_figures
from staticfire.system_under_test.broker.assembly.broker import Broker
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.flow_control.flow_control import FlowControl
from staticfire.system_under_test.broker.flow_control.request_classes import RequestClass
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import ONEWAY_FLAG, RemotingCommand
from staticfire.system_under_test.protocol.message import decode_records
from staticfire.system_under_test.remoting import RemotingClient
from staticfire.system_under_test.runtime.env import Env
from tests.support.small_index import SMALL_INDEX
from tests.system_under_test.broker.bench import HandClock, Peer, pull_ext, send_ext

MASTER, CLIENT = "10.0.0.1", "10.0.0.3"
SEND_INTERVAL_S = 0.005


class Stalls:
    """One broker on a disk that can be slowed down, one client."""

    def __init__(self, *, sync_flush: bool = True, **options: object) -> None:
        self.world = World(7)
        self.host = self.world.add_host("master", MASTER, disk=DiskOptions(fsync_ns=1_000_000))
        self.client = self.world.add_host("client", CLIENT)
        self.config = BrokerConfig(
            broker_name="broker-a",
            listen_host=MASTER,
            sync_flush=sync_flush,
            commit_log_file_size=1 << 20,
            consume_queue_file_size=20_000,
            **SMALL_INDEX,
            **options,  # type: ignore[arg-type]
        )
        self.answers: dict[str, RemotingCommand] = {}
        self.flow: FlowControl
        self.longest_queue = 0

    async def _serve(self, env: Env) -> None:
        broker = Broker(env, self.config)
        self.flow = broker.flow
        broker.open()
        await broker.start()
        await broker.failure

    def run(self, *, slow: float, load_s: float) -> None:
        """Send every SEND_INTERVAL_S for `load_s` on a disk `slow` times slower, mend it, and read what is stored."""

        async def tell(env: Env) -> None:
            remoting = RemotingClient(env)
            await self._send(remoting, "before")
            self.host.disk.slow(slow)
            sends = []
            for number in range(int(load_s / SEND_INTERVAL_S)):
                sends.append(asyncio.ensure_future(self._send(remoting, str(number))))
                await asyncio.sleep(SEND_INTERVAL_S)
            await asyncio.gather(*sends)
            self.host.disk.heal()
            await asyncio.sleep(5)
            await self._send(remoting, "after")
            self.stored = await self._stored(remoting)
            figures = await remoting.invoke(f"{MASTER}:10911", RemotingCommand.request(28), 30.0)
            self.figures = json_dialect.loads(figures.body.decode())["table"]
            await remoting.close()

        async def run() -> None:
            self.host.start("master", self._serve)
            await asyncio.sleep(0.5)
            await self.client.start("client", tell).exit

        self.world.run(run)

    async def _send(self, remoting: RemotingClient, key: str) -> None:
        request = RemotingCommand.request(310, send_ext("TopicTest"), key.encode())
        self.longest_queue = max(self.longest_queue, len(self.flow.queues[RequestClass.SEND]))
        self.answers[key] = await remoting.invoke(f"{MASTER}:10911", request, 30.0)

    async def _stored(self, remoting: RemotingClient) -> list[str]:
        keys: list[str] = []
        while True:
            request = RemotingCommand.request(11, pull_ext("TopicTest", offset=len(keys)))
            answer = await remoting.invoke(f"{MASTER}:10911", request, 30.0)
            if answer.code != ResponseCode.SUCCESS:
                return keys
            keys += [message.body.decode() for message in decode_records(answer.body)]

    def codes(self) -> Counter[int]:
        return Counter(answer.code for answer in self.answers.values())

    def reasons(self) -> set[str]:
        remarks = [answer.remark or "" for answer in self.answers.values()]
        return {remark.partition("]")[0] + "]" for remark in remarks if remark}

    def check_honesty(self) -> None:
        """Exactly what was not refused is stored, once."""
        accepted = {key for key, answer in self.answers.items() if answer.code in (0, 10)}
        assert sorted(self.stored) == sorted(accepted)
        assert {"before", "after"} <= accepted


@pytest.mark.parametrize("sync_flush", [True, False])
def test_a_stalled_disk_makes_the_broker_refuse_and_then_recover(sync_flush: bool) -> None:
    stalls = Stalls(sync_flush=sync_flush)
    stalls.run(slow=3000.0, load_s=2.5)
    assert stalls.codes()[ResponseCode.SYSTEM_BUSY] > 100
    assert "[REJECTREQUEST]" in stalls.reasons()
    assert "[TIMEOUT_CLEAN_QUEUE]" in stalls.reasons()
    stalls.check_honesty()


def test_a_flush_of_100_ms_delays_sends_and_refuses_none() -> None:
    stalls = Stalls()
    stalls.run(slow=100.0, load_s=2.0)
    assert set(stalls.codes()) == {ResponseCode.SUCCESS}
    assert stalls.longest_queue > 0
    stalls.check_honesty()


def test_a_queue_that_is_full_refuses_at_once() -> None:
    stalls = Stalls(send_queue_capacity=5)
    stalls.run(slow=900.0, load_s=1.0)
    assert "[OVERLOAD]" in stalls.reasons()
    assert stalls.longest_queue <= 5
    assert stalls.figures["sendThreadPoolQueueCapacity"] == "5"
    assert stalls.figures["sendThreadPoolQueueSize"] == "0"
    stalls.check_honesty()


def test_who_waits_when_the_page_cache_becomes_busy_is_refused() -> None:
    stalls = Stalls(send_queue_wait_s=10.0)
    stalls.run(slow=3000.0, load_s=2.5)
    assert stalls.reasons() == {"[PCBUSY_CLEAN_QUEUE]", "[REJECTREQUEST]"}
    stalls.check_honesty()


# Without a disk


class Scene:
    """Flow control on a clock that is moved by hand; its handlers remember what they were given."""

    def __init__(self, *, sync_flush: bool = True) -> None:
        self.clock = HandClock()
        self.handled: list[int] = []
        self.unflushed = 0
        self.takes_s = 0.0
        config = BrokerConfig(broker_name="a", listen_host="10.0.0.1", sync_flush=sync_flush)
        codes = (RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE, RequestCode.HEART_BEAT)
        self.flow = FlowControl(
            config,
            dict.fromkeys(codes, self._handle),
            unflushed_bytes=lambda: self.unflushed,
            now_ns=self.clock.monotonic_ns,
        )
        self.peer = ServedPeer()

    def _handle(self, connection: object, request: RemotingCommand) -> RemotingCommand:
        self.handled.append(request.opaque)
        self.clock.move(self.takes_s)
        return RemotingCommand.response(request, ResponseCode.SUCCESS)

    def ask(self, code: int, opaque: int = 0, *, oneway: bool = False) -> RemotingCommand | None:
        request = RemotingCommand.request(code, {}, oneway=oneway)
        request.opaque = opaque
        return self.flow.handle(self.peer.connection, request)


class ServedPeer(Peer):
    """Like a connection, it answers what was served later."""

    def serve(self, request: RemotingCommand, handler: object) -> None:
        assert callable(handler)
        response = handler(self.connection, request)
        if not request.flag & ONEWAY_FLAG:
            self.send(response)


def test_unknown_codes_are_answered_with_3() -> None:
    answer = Scene().ask(9999)
    assert answer is not None
    assert (answer.code, answer.remark) == (3, " request type 9999 not supported")


def test_a_flood_is_handled_in_order_over_several_turns() -> None:
    scene = Scene()

    async def flood() -> None:
        answers = [scene.ask(11, number) for number in range(200)]
        assert sum(answer is not None for answer in answers) == 64
        heartbeat = scene.ask(34, 1000)
        assert heartbeat is not None, "another class is not delayed"
        for _ in range(5):
            await asyncio.sleep(0)

    asyncio.run(flood())
    assert [number for number in scene.handled if number < 1000] == list(range(200))
    assert [answer.opaque for answer in scene.peer.sent] == list(range(64, 200))


def test_requests_that_take_long_share_the_turns_with_others() -> None:
    scene = Scene()
    scene.takes_s = 0.02
    between: list[int] = []

    async def flood() -> None:
        for number in range(68):
            scene.ask(11, number)
        asyncio.get_running_loop().call_soon(lambda: between.append(len(scene.handled)))
        for _ in range(4):
            await asyncio.sleep(0)

    asyncio.run(flood())
    assert between == [66]  # two of the four that had to queue
    assert scene.handled == list(range(68))


def test_requests_of_a_lost_client_are_dropped() -> None:
    scene = Scene()

    async def flood() -> None:
        for number in range(100):
            scene.ask(11, number)
        scene.peer.closed = True
        await asyncio.sleep(0)

    asyncio.run(flood())
    assert len(scene.handled) == 64


def test_too_much_that_waits_for_a_flush_stops_sends_until_it_ends() -> None:
    scene = Scene()

    async def story() -> None:
        scene.unflushed = 1 << 30
        scene.flow.appended()
        assert scene.ask(310, 1) is None
        assert scene.ask(11, 2) is not None, "pulls need no appender"
        scene.flow.flush_ended()  # of something smaller
        await asyncio.sleep(0)
        assert scene.handled == [2]
        scene.unflushed = 0
        scene.flow.flush_ended()
        await asyncio.sleep(0)
        assert scene.handled == [2, 1]
        assert scene.ask(310, 3) is not None
        scene.flow.stop()

    asyncio.run(story())


def test_figures_tell_sizes_and_waits() -> None:
    scene = Scene()

    async def story() -> None:
        scene.flow.flush_began()
        scene.clock.move(0.06)
        scene.flow._tick()
        assert scene.ask(310, 1) is None
        scene.clock.move(0.1)
        info = flow_figures(scene.flow, scene.clock.monotonic_ns)
        assert info["sendThreadPoolQueueSize"] == 1
        assert info["sendThreadPoolQueueCapacity"] == 10000
        assert info["sendThreadPoolQueueHeadWaitTimeMills"] == 100
        assert info["pullThreadPoolQueueSize"] == 0
        assert info["pageCacheLockTimeMills"] == 160
        scene.flow.stop()

    asyncio.run(story())


def test_a_oneway_send_is_refused_in_silence() -> None:
    scene = Scene()

    async def story() -> None:
        scene.flow.flush_began()
        scene.clock.move(0.06)
        scene.flow._tick()
        assert scene.ask(310, 1, oneway=True) is None
        scene.clock.move(0.2)
        scene.flow._tick()
        scene.flow.stop()

    asyncio.run(story())
    assert scene.peer.sent == []
    assert scene.handled == []
