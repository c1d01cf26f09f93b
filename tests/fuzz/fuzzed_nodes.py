"""A name server and a broker with a slave in a simulated world, to be fed with anything."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from staticfire.harness.simulation.hosts.process import SimProcess
from staticfire.harness.simulation.hosts.world import World
from staticfire.system_under_test.broker.assembly.broker import main as broker_main
from staticfire.system_under_test.broker.config import BrokerConfig, BrokerRole
from staticfire.system_under_test.name_server.name_server import NameServerConfig
from staticfire.system_under_test.name_server.name_server import main as name_server_main
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import CreateTopicHeader, SendMessageHeader
from staticfire.system_under_test.remoting import RemotingClient
from staticfire.system_under_test.runtime.env import Env
from tests.support.small_index import SMALL_INDEX

ADDRESSES = {"ns": "10.0.0.1", "broker": "10.0.0.2", "slave": "10.0.0.3", "peer": "10.0.0.9"}
PORTS = {"name server": ("ns", 9876), "broker": ("broker", 10911), "replication": ("broker", 10912)}
NODES = ("ns", "broker", "slave")
EVENTS_MAX = 2_000_000
TIMEOUT_S = 3.0
TOPIC = "Sound"  # nobody fuzzes it

T = TypeVar("T")


class FuzzedNodes:
    """Nodes that live on from one attack to the next: what one attack leaves behind is there for the next one."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed, trace_level=0, guard=False)
        for name, address in ADDRESSES.items():
            self.world.add_host(name, address)
        self.sent: list[str] = []
        self._run(self._start)
        self._ask(self._create_topic)

    def _run(self, main: Callable[[], Awaitable[None]]) -> None:
        async def harness() -> None:
            await main()

        self.world.loop.run_harness(harness, EVENTS_MAX)

    async def _start(self) -> None:
        name_server = NameServerConfig(listen_host=ADDRESSES["ns"])
        self.world.hosts["ns"].start("ns", lambda env: name_server_main(env, name_server))
        for name in ("broker", "slave"):
            self.start_broker(name)
        await asyncio.sleep(3.0)

    def start_broker(self, name: str) -> None:
        config = broker_config(name)
        self.world.hosts[name].start(name, lambda env: broker_main(env, config))

    def process(self, name: str) -> SimProcess:
        process = self.world.hosts[name].process
        assert process is not None
        return process

    # Peers

    def attack(self, port: str, chunks: list[bytes]) -> None:
        """Send `chunks` to one of PORTS, 1 ms apart, and leave."""

        async def main(env: Env) -> None:
            host, number = PORTS[port]
            transport, _ = await asyncio.get_running_loop().create_connection(
                asyncio.Protocol, ADDRESSES[host], number
            )
            for chunk in chunks:
                transport.write(chunk)
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.005)
            transport.close()
            await asyncio.sleep(0.002)

        self._ask(main)

    def _ask(self, main: Callable[[Env], Awaitable[None]]) -> None:
        """Run a process on the peers' host until it has ended; what it raises is raised here."""
        failures: list[Exception] = []

        async def guarded(env: Env) -> None:
            try:
                await main(env)
            except Exception as error:
                failures.append(error)

        async def wait() -> None:
            process = self.world.hosts["peer"].start("peer", guarded)
            while process.alive:
                await asyncio.sleep(0.001)

        self._run(wait)
        if failures:
            raise failures[0]

    async def _create_topic(self, env: Env) -> None:
        header = CreateTopicHeader(
            topic=TOPIC,
            default_topic="TBW102",
            read_queue_nums=1,
            write_queue_nums=1,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        )
        await self._invoke(env, RequestCode.UPDATE_AND_CREATE_TOPIC, header.to_ext())

    async def _invoke(
        self, env: Env, code: RequestCode, ext: dict[str, str], body: bytes = b""
    ) -> RemotingCommand:
        remoting = RemotingClient(env)
        address = f"{ADDRESSES['broker']}:10911"
        answer = await remoting.invoke(
            address, RemotingCommand.request(code, ext, body=body), TIMEOUT_S
        )
        await remoting.close()
        assert answer.code == ResponseCode.SUCCESS, (answer.code, answer.remark)
        return answer

    # What must hold

    def check_alive(self) -> None:
        """Every node lives, and none has met an error that it did not expect."""
        for name in NODES:
            process = self.process(name)
            errors = [line for line in process.log.lines if line.level == "error"]
            assert errors == []
            assert process.alive, name

    def check_serves(self) -> None:
        """The broker stores a message and finds it again by its queue and by its offset."""

        async def main(env: Env) -> None:
            body = b"sound %d" % len(self.sent)
            header = SendMessageHeader(
                producer_group="p",
                topic=TOPIC,
                default_topic="TBW102",
                default_topic_queue_nums=1,
                queue_id=0,
                sys_flag=0,
                born_timestamp=1,
                flag=0,
            )
            sent = await self._invoke(env, RequestCode.SEND_MESSAGE, header.to_ext(), body)
            offset = sent.ext_fields["queueOffset"]
            assert offset == str(len(self.sent))
            self.sent.append(sent.ext_fields["msgId"])
            physical = str(int(sent.ext_fields["msgId"][16:], 16))
            found = await self._invoke(env, RequestCode.VIEW_MESSAGE_BY_ID, {"offset": physical})
            assert body in found.body

        self._ask(main)

    def check_restart(self) -> None:
        """Kill the broker and start it again: recovery finds everything that was acknowledged, and damage nowhere."""
        self.process("broker").kill()

        async def restart() -> None:
            await asyncio.sleep(0.1)
            self.start_broker("broker")
            await asyncio.sleep(5.0)

        async def look(env: Env) -> None:
            for number, message_id in enumerate(self.sent):
                physical = str(int(message_id[16:], 16))
                found = await self._invoke(
                    env, RequestCode.VIEW_MESSAGE_BY_ID, {"offset": physical}
                )
                assert b"sound %d" % number in found.body

        self._run(restart)
        self._ask(look)
        opened = [
            line.fields for line in self.process("broker").log.lines if line.event == "store opened"
        ]
        assert [fields["cut_bytes"] for fields in opened] == [0]

    def close(self) -> None:
        self.world.loop.bury()


def broker_config(name: str) -> BrokerConfig:
    is_slave = name == "slave"
    other = "broker" if is_slave else "slave"
    return BrokerConfig(
        broker_name="broker-a",
        broker_id=1 if is_slave else 0,
        role=BrokerRole.SLAVE if is_slave else BrokerRole.SYNC_MASTER,
        listen_host=ADDRESSES[name],
        name_servers=(f"{ADDRESSES['ns']}:9876",),
        sync_flush=True,
        commit_log_file_size=1 << 20,
        consume_queue_file_size=4000,
        **SMALL_INDEX,
        ha_peers=(f"{ADDRESSES[other]}:10912",),
    )
