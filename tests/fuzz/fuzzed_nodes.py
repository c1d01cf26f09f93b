"""A name server and a broker with a slave in a simulated world, to be fed with anything.

Access control is on, and all client ports enforce TLS. Every port of the three nodes is open to attacks.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from staticfire.harness.simulation.hosts.process import Main, SimProcess
from staticfire.harness.simulation.hosts.world import World
from staticfire.harness.simulation.network.tls import SimTls
from staticfire.system_under_test.acl.signature import Credentials, make_signer
from staticfire.system_under_test.broker.assembly.broker import main as broker_main
from staticfire.system_under_test.broker.config import BrokerConfig, BrokerRole
from staticfire.system_under_test.name_server.config import NameServerConfig
from staticfire.system_under_test.name_server.name_server import main as name_server_main
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import CreateTopicHeader, SendMessageHeader
from staticfire.system_under_test.remoting import RemotingClient
from staticfire.system_under_test.runtime.env import Env, TlsMode
from staticfire.system_under_test.store.metadata_file import replace_atomically
from tests.support.small_index import SMALL_INDEX

ADDRESSES = {"ns": "10.0.0.1", "broker": "10.0.0.2", "slave": "10.0.0.3", "peer": "10.0.0.9"}
PORTS = {
    "name server": ("ns", 9876),
    "broker": ("broker", 10911),
    "fast port": ("broker", 10909),
    "replication": ("broker", 10912),
    "slave": ("slave", 10911),
    "slave's fast port": ("slave", 10909),
    "slave's replication": ("slave", 10912),
}
WITHOUT_ACCOUNTS = ("name server", "replication", "slave's replication")
NODES = ("ns", "broker", "slave")
EVENTS_MAX = 2_000_000
TIMEOUT_S = 3.0
TOPIC = "Sound"  # attackers may name it, and have no right to it
BODY = b"sound, and not for strangers: %d"
BODY_MARK = BODY.partition(b"%")[0]
PATIENCE = 5  # sends, a second apart
UNACKNOWLEDGED = (ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE)
TURN_MAX_S = 1.0  # of CPU: the nodes are instrumented, and share the process with everything else
GROWTH_MAX_BYTES = 64 << 20  # of the peak of the whole process, by one attack
ADMIN = Credentials(access_key="operator", secret_key="operator-secret")
VISITOR = Credentials(access_key="visitor", secret_key="visitor-secret")
ACCOUNTS = f"""\
globalWhiteRemoteAddresses: []
accounts:
- accessKey: {ADMIN.access_key}
  secretKey: {ADMIN.secret_key}
  admin: true
- accessKey: {VISITOR.access_key}
  secretKey: {VISITOR.secret_key}
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms: ["Fuzzed=PUB|SUB", "TBW102=PUB|SUB"]
""".encode()
KEYS = f"accessKey: {ADMIN.access_key}\nsecretKey: {ADMIN.secret_key}\n".encode()


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a peer sends, and whether by TLS. `is_admin`: it may read everything."""

    chunks: Sequence[bytes]
    by_tls: bool = True
    is_admin: bool = False


class Peer(asyncio.Protocol):
    """Sends nothing by itself, and keeps what it is sent."""

    def __init__(self) -> None:
        self.received = bytearray()

    def data_received(self, data: bytes) -> None:
        self.received += data


def peak_bytes() -> int:
    """Of this process, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


class FuzzedNodes:
    """Nodes that live on from one attack to the next: what one attack leaves behind is there for the next one."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed, trace_level=0, guard=False)
        for name, address in ADDRESSES.items():
            self.world.add_host(name, address)
        self.sent: list[str] = []
        self._stored = 0  # of our messages, those included that were not acknowledged
        self._run(self._start)
        self._ask(self._create_topic)

    def _run(self, main: Callable[[], Awaitable[None]]) -> None:
        async def harness() -> None:
            await main()

        self.world.loop.run_harness(harness, EVENTS_MAX)

    async def _start(self) -> None:
        name_server = NameServerConfig(listen_host=ADDRESSES["ns"])
        self._boot("ns", lambda env: name_server_main(env, name_server))
        for name in ("broker", "slave"):
            self._write(name, "/accounts/plain_acl.yml", ACCOUNTS)
            self._write(name, "/accounts/tools.yml", KEYS)
            self.start_broker(name)
        await asyncio.sleep(3.0)

    def start_broker(self, name: str) -> None:
        config = broker_config(name)
        self._boot(name, lambda env: broker_main(env, config))

    def _boot(self, name: str, main: Main) -> None:
        self.world.hosts[name].start(name, self._with_tls(main))

    def _with_tls(self, main: Main) -> Main:
        tls = SimTls(TlsMode.ENFORCING, self.world.scheduler.charge, speaks=True)
        return lambda env: main(replace(env, tls=tls))

    def _write(self, name: str, path: str, content: bytes) -> None:
        replace_atomically(self.world.hosts[name].disk, path, content)

    def process(self, name: str) -> SimProcess:
        process = self.world.hosts[name].process
        assert process is not None
        return process

    # Peers

    def attack(self, port: str, conversation: Conversation) -> None:
        """Send the chunks to one of PORTS, 1 ms apart, and leave. AssertionError if a stranger reads what is not its.

        Only client ports speak TLS.
        """
        peer = Peer()

        async def main(env: Env) -> None:
            host, number = PORTS[port]
            by_tls = conversation.by_tls and "replication" not in port
            assert env.tls is not None
            transport, _ = await asyncio.get_running_loop().create_connection(
                lambda: peer,
                ADDRESSES[host],
                number,
                ssl=env.tls.client_context() if by_tls else None,
            )
            for chunk in conversation.chunks:
                transport.write(chunk)
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.005)
            transport.close()
            await asyncio.sleep(0.002)

        before = peak_bytes()
        self._ask(main)
        grown = peak_bytes() - before
        assert grown <= GROWTH_MAX_BYTES, f"{grown >> 20} MiB more"
        if port not in WITHOUT_ACCOUNTS and not conversation.is_admin:
            assert BODY_MARK not in peer.received

    def rest(self, seconds: float) -> None:
        """Let the nodes be by themselves for so long."""
        self._run(lambda: asyncio.sleep(seconds))

    def _ask(self, main: Callable[[Env], Awaitable[None]]) -> None:
        """Run a process on the peers' host until it has ended; what it raises is raised here."""
        failures: list[Exception] = []

        async def guarded(env: Env) -> None:
            try:
                await main(env)
            except Exception as error:
                failures.append(error)

        async def wait() -> None:
            process = self.world.hosts["peer"].start("peer", self._with_tls(guarded))
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

    async def _invoke(self, env: Env, code: RequestCode, ext: dict[str, str]) -> RemotingCommand:
        answer = await self._ask_broker(env, code, ext)
        assert answer.code == ResponseCode.SUCCESS, (answer.code, answer.remark)
        return answer

    async def _ask_broker(
        self, env: Env, code: RequestCode, ext: dict[str, str], body: bytes = b""
    ) -> RemotingCommand:
        remoting = RemotingClient(env, sign=make_signer(ADMIN))
        address = f"{ADDRESSES['broker']}:10911"
        try:
            return await remoting.invoke(
                address, RemotingCommand.request(code, ext, body=body), TIMEOUT_S
            )
        finally:
            await remoting.close()

    # What must hold

    def check_alive(self) -> None:
        """Every node lives, and none has met an error that it did not expect."""
        for name in NODES:
            process = self.process(name)
            errors = [line for line in process.log.lines if line.level == "error"]
            process.log.lines.clear()
            assert errors == []
            assert process.alive, name

    def check_serves(self, *, attacked: str = "broker") -> None:
        """The broker stores a message and finds it again by its queue and by its offset; no stranger stored one there.

        A host that `attacked` the replication port of the slave in its own language may hold up replication for a
        moment (SECURITY.md).
        """

        async def main(env: Env) -> None:
            body = BODY % len(self.sent)
            patience = PATIENCE if attacked == "slave's replication" else 1
            sent = await self._send(env, body, patience)
            self.sent.append(sent.ext_fields["msgId"])
            physical = str(int(sent.ext_fields["msgId"][16:], 16))
            found = await self._invoke(env, RequestCode.VIEW_MESSAGE_BY_ID, {"offset": physical})
            assert body in found.body

        self._ask(main)

    async def _send(self, env: Env, body: bytes, patience: int) -> RemotingCommand:
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
        for _ in range(patience):
            answer = await self._ask_broker(env, RequestCode.SEND_MESSAGE, header.to_ext(), body)
            assert answer.code in (ResponseCode.SUCCESS, *UNACKNOWLEDGED), answer
            assert answer.ext_fields["queueOffset"] == str(self._stored)
            self._stored += 1
            if answer.code == ResponseCode.SUCCESS:
                return answer
            await asyncio.sleep(1.0)
        raise AssertionError(f"{patience} sends were not acknowledged, the last with {answer.code}")

    def check_restart(self) -> None:
        """Kill the broker and start it again: recovery finds everything that was acknowledged, and damage nowhere."""
        self.check_alive()
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
                assert BODY % number in found.body

        self._run(restart)
        lines = self.process("broker").log.lines
        assert [line.fields["cut_bytes"] for line in lines if line.event == "store opened"] == [0]
        self._ask(look)

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
        acl_enable=True,
        acl_path="/accounts/plain_acl.yml",
        acl_credentials_path="/accounts/tools.yml",
    )
