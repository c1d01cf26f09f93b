"""The bench of a case: its connections to the target, unique names, common requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from zlib import crc32

from staticfire.faults.model.capabilities import Controls
from staticfire.harness.conformance import wire
from staticfire.harness.conformance.answers import Pulled, json_object, number, read_pull
from staticfire.harness.conformance.failures import NotTriable, TargetUnfit
from staticfire.harness.conformance.request_fields import (
    READ,
    WRITE,
    pull_fields,
    send_fields,
    topic_fields,
)
from staticfire.harness.conformance.stored_ends import StoredEnds
from staticfire.harness.conformance.target_facts import BrokerAddress, TargetFacts, known_brokers
from staticfire.harness.conformance.wire import CannotConnect, NoAnswer, Wire
from staticfire.harness.conformance.wire_log import WireLog
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand

MASTER = 0
STORED = (  # answers to sends whose message is stored, from the safest down
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
)
READABLE_S = 5.0  # between the answer to a send and a pull that finds the message
# Seconds until name servers know a new topic, since brokers register every 30 s.
ROUTE_S = 35.0
HOLD_S = 15.0  # greatest wait of a pull that may wait
LISTENS_S = 60.0
SLAVE_KNOWS_S = 25.0  # two periods of SlaveSynchronize and a margin


class Bench:
    """The bench of one case, closed after it."""

    def __init__(self, target: TargetFacts, log: WireLog, number: str) -> None:
        self.target = target
        self.log = log
        self._names = f"{target.prefix}-{number}"
        self._count = 0
        self._wires: list[Wire] = []
        self._topics: list[tuple[str, str]] = []  # broker address and topic
        self._brokers: tuple[BrokerAddress, ...] = ()
        self._stored = StoredEnds()
        self._endings: list[Callable[[], Awaitable[None]]] = []

    # --- names and connections ----------------------------------------------------------------------

    def fresh_name(self, what: str = "t") -> str:
        """Return a name that is unique at the target: `<prefix>-<case>-t1`."""
        self._count += 1
        return f"{self._names}-{what}{self._count}"

    def fresh_number(self) -> int:
        """Return a number below 2^64 that is unique among all cases and calls."""
        self._count += 1
        return crc32(self._names.encode()) << 32 | self._count

    def now_ms(self) -> int:
        """Return the time of the target's wall clock."""
        return self.target.now_ms()

    def fresh_address(self) -> str:
        """Return an address that no broker (RFC 5737) and no other case has."""
        self._count += 1
        digits = crc32(self._names.encode())
        return f"192.0.2.{digits % 250 + 1}:{digits // 250 % 50_000 + 10_000 + self._count}"

    async def connect(self, address: str) -> Wire:
        """Open a connection. Raises CannotConnect."""
        opened = await wire.connect(address, self.log)
        self._wires.append(opened)
        return opened

    async def name_server(self, number: int = 0) -> Wire:
        """Open a connection to a name server."""
        return await self.connect(self.target.name_servers[number])

    async def brokers(self) -> tuple[BrokerAddress, ...]:
        """Return all brokers that the first name server knows, by name and id."""
        if not self._brokers:
            self._brokers = await self.known_brokers(await self.name_server())
        return self._brokers

    async def known_brokers(self, name_server: Wire) -> tuple[BrokerAddress, ...]:
        """Return the brokers that a name server knows, without those that cases invent. Raises TargetUnfit."""
        known = await known_brokers(name_server)
        return tuple(one for one in known if not one.cluster.startswith(self.target.prefix))

    async def masters(self) -> tuple[BrokerAddress, ...]:
        return tuple(broker for broker in await self.brokers() if broker.id == MASTER)

    async def master(self) -> BrokerAddress:
        """Return the master that cases use. Raises TargetUnfit."""
        masters = await self.masters()
        if not masters:
            raise TargetUnfit("the name server knows no master")
        return masters[0]

    async def broker(self) -> Wire:
        """Open a connection to the master that cases use."""
        return await self.connect((await self.master()).address)

    def at_the_end(self, end: Callable[[], Awaitable[None]]) -> None:
        """Register a callback for the end of the case, before the clean-up. It must not raise."""
        self._endings.append(end)

    async def close(self) -> None:
        """Remove the topics and groups of the case, and end all connections. Never raises."""
        for end in self._endings:
            await end()
        for address, topic in self._topics:
            try:
                async with asyncio.timeout(5):
                    broker = await self.connect(address)
                    await broker.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
                    for name_server in self.target.name_servers:
                        served = await self.connect(name_server)
                        await served.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})
            except (CannotConnect, NoAnswer, TimeoutError) as error:
                self.log.note(address, f"{topic} could not be removed: {error}")
        for opened in self._wires:
            opened.close()

    async def slave_of(self, master: BrokerAddress) -> BrokerAddress:
        """Return a slave of this master. Raises TargetUnfit."""
        for broker in await self.brokers():
            if broker.name == master.name and broker.id != MASTER:
                return broker
        raise TargetUnfit(f"the name server knows no slave of {master.name}")

    async def cut_power(self, *addresses: str) -> None:
        """Cut the power of these nodes at the same time, boot them again, and wait until they listen."""
        nodes, disk = [self.target.nodes[address] for address in addresses], self.controls().disk
        await disk.power_cut(nodes)
        for node in nodes:
            await disk.heal(node)
            await disk.power_on(node)
        for address in addresses:
            await self.until_listening(address)

    async def until_listening(self, address: str) -> Wire:
        """Connect as soon as the server accepts it. Raises CannotConnect."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + LISTENS_S
        while True:
            try:
                return await self.connect(address)
            except CannotConnect:
                if loop.time() > until_s:
                    raise
                await asyncio.sleep(0.1)

    async def until_serving(self, address: str, topic: str) -> Wire:
        """Connect as soon as the broker answers about this topic. Raises CannotConnect, NoAnswer."""
        broker = await self.until_listening(address)
        loop = asyncio.get_running_loop()
        until_s = loop.time() + LISTENS_S
        while loop.time() < until_s:
            if await self.pull_if_served(broker, topic, queue=0, offset=0) is not None:
                return broker
            await asyncio.sleep(0.1)
        raise NoAnswer(f"{address} does not serve {topic} {LISTENS_S:g} s after its start")

    async def until_slave_knows(self, slave: BrokerAddress, topic: str) -> None:
        """Wait until a slave has a topic's configuration. Raises NoAnswer after SLAVE_KNOWS_S.

        A slave asks its master for topics every 10 s; until then it answers no pull of a new topic.
        """
        follower = await self.connect(slave.address)
        loop = asyncio.get_running_loop()
        until_s = loop.time() + SLAVE_KNOWS_S
        while (await follower.ask(RequestCode.PULL_MESSAGE, self._probe_fields(topic))).code == (
            ResponseCode.TOPIC_NOT_EXIST
        ):
            if loop.time() > until_s:
                raise NoAnswer(f"{slave.address} does not know {topic} after {SLAVE_KNOWS_S:g} s")
            await asyncio.sleep(0.2)

    def _probe_fields(self, topic: str) -> dict[str, object]:
        return pull_fields(topic, queue=0, offset=0, group=f"{self._names}-g")

    async def read_store(self, address: str) -> Mapping[str, bytes]:
        """Return the files of a node by path; only for cases with Need.FILES."""
        assert self.target.read_store is not None, "the suite runs no such case where it cannot"
        return await self.target.read_store(self.target.nodes[address])

    async def change_store(self, address: str, files: Mapping[str, bytes | None]) -> None:
        """Write or remove (None) files of a stopped node. Raises NotTriable if the site cannot do that."""
        if self.target.change_store is None:
            raise NotTriable("the files of its nodes can be read and not changed")
        await self.target.change_store(self.target.nodes[address], files)

    async def cpu_s(self, address: str) -> float:
        """Return the CPU time of a node so far, in seconds. Raises NotTriable if that cannot be read."""
        read = self.target.cpu_s
        found = None if read is None else await read(self.target.nodes[address])
        if found is None:
            raise NotTriable("the processor time of its nodes cannot be read")
        return found

    async def configure(self, broker: Wire, **options: object) -> None:
        """Change options of a running broker. Raises TargetUnfit."""
        body = "".join(f"{name}={value}\n" for name, value in options.items()).encode()
        answer = await broker.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body)
        if answer.code != ResponseCode.SUCCESS:
            raise TargetUnfit(f"options cannot be changed: {answer.code} {answer.remark}")

    def controls(self) -> Controls:
        """Return the controls of faults; only for cases that need faults or power cuts."""
        assert self.target.controls is not None, "the suite runs no such case where it cannot"
        return self.target.controls

    # --- topics -------------------------------------------------------------------------------------

    async def topic(self, name: str = "", *, queues: int = 4, perm: int = READ | WRITE) -> str:
        """Make a topic on the master that cases use, by default with a new name. Raises TargetUnfit."""
        name, master = name or self.fresh_name(), await self.master()
        await self.make_topic(await self.connect(master.address), name, queues=queues, perm=perm)
        if self.target.may_administrate:
            self._topics.append((master.address, name))
        return name

    async def make_topic(
        self, broker: Wire, name: str, *, queues: int, perm: int = READ | WRITE
    ) -> None:
        """Make a topic on a broker. Raises TargetUnfit."""
        if self.target.may_administrate:
            answer = await broker.ask(
                RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(name, queues=queues, perm=perm)
            )
        else:
            answer = await broker.ask(
                RequestCode.SEND_MESSAGE, send_fields(name, queue=0), b"made by its first message"
            )
        if answer.code != ResponseCode.SUCCESS:
            raise TargetUnfit(f"topic {name} cannot be made: {answer.code} {answer.remark}")

    def remove_later(self, topic: str, broker_address: str) -> None:
        """Register a topic for removal that `topic` did not make."""
        self._topics.append((broker_address, topic))

    async def route(self, topic: str) -> dict[str, Any] | None:
        """Return the first name server's route of a topic, or None if it does not know the topic."""
        served = await self.name_server()
        answer = await served.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        return json_object(answer)

    async def await_route(self, topic: str, *, within_s: float = ROUTE_S) -> dict[str, Any] | None:
        """Wait for a route and return it; None if it does not appear in this time."""
        try:
            async with asyncio.timeout(within_s):
                while (route := await self.route(topic)) is None:
                    await asyncio.sleep(0.1)
                return route
        except TimeoutError:
            return None

    async def await_in_route(self, topic: str, field: str, wanted: int, within_s: float) -> object:
        """Wait for this value of a field of the topic's queues at a broker; return the last one seen."""
        for _ in range(round(within_s / 0.1)):
            route = await self.route(topic)
            found = None if route is None else route["queueDatas"][0][field]
            if found == wanted:
                break
            await asyncio.sleep(0.1)
        return found

    # --- messages -----------------------------------------------------------------------------------

    async def send(
        self,
        broker: Wire,
        topic: str,
        body: bytes = b"body",
        *,
        queue: int = 0,
        properties: Mapping[str, str] | None = None,
        **fields: object,
    ) -> RemotingCommand:
        """Send one message with request 10 and return the answer."""
        ext = send_fields(topic, queue=queue, properties=properties, **fields)
        answer = await broker.ask(RequestCode.SEND_MESSAGE, ext, body)
        self._stored.note(broker.address, topic, properties or {}, answer)
        return answer

    async def store(
        self, broker: Wire, topic: str, body: bytes = b"body", **fields: Any
    ) -> dict[str, str]:
        """Store a message, with any status, and return the fields of the answer. Raises TargetUnfit."""
        answer = await self.send(broker, topic, body, **fields)
        if answer.code not in STORED:
            raise TargetUnfit(f"a message for {topic} was refused: {answer.code} {answer.remark}")
        return answer.ext_fields

    async def pull(
        self,
        broker: Wire,
        topic: str,
        *,
        queue: int = 0,
        offset: int = 0,
        group: str = "",
        least: int = 0,
        answer_s: float = wire.ANSWER_S,
        **fields: object,
    ) -> Pulled:
        """Pull and return the decoded answer.

        A pull that may not wait is repeated until the queue has all stored messages.

        `least` is the end that the queue must reach if messages were not stored by `send`.
        """
        ext = pull_fields(
            topic, queue=queue, offset=offset, group=group or f"{self._names}-g", **fields
        )
        stored = self._stored.end(broker.address, topic, queue)
        end = 0 if "suspendTimeoutMillis" in fields else max(stored, least)
        loop = asyncio.get_running_loop()
        until_s = loop.time() + READABLE_S
        while True:
            asked_s = loop.time()  # taken before the pull, since this process may stall
            pulled = read_pull(await broker.ask(RequestCode.PULL_MESSAGE, ext, answer_s=answer_s))
            if pulled.max_offset >= end or asked_s > until_s:
                return pulled
            await asyncio.sleep(0.02)

    async def end_of(self, broker: Wire, topic: str, *, queue: int = 0, least: int = 0) -> int:
        """Return the end of a queue, once it has reached the stored messages or `least`. Raises NoAnswer, Refused."""
        fields = {"topic": topic, "queueId": queue}
        least = max(least, self._stored.end(broker.address, topic, queue))
        loop = asyncio.get_running_loop()
        until_s = loop.time() + READABLE_S
        while True:
            asked_s = loop.time()
            answer = await broker.obtain(RequestCode.GET_MAX_OFFSET, fields)
            end = number(answer.ext_fields, "offset")
            if end >= least or asked_s > until_s:
                return end
            await asyncio.sleep(0.02)

    async def read_all(
        self, address: str, topic: str, *, queue: int = 0, wanted: int = 0, within_s: float = 20.0
    ) -> list[bytes]:
        """Return the bodies of a queue from its beginning; wait a while for `wanted` of them.

        A broker that has just started may not serve yet, so the request is repeated.
        """
        broker = await self.until_listening(address)
        loop = asyncio.get_running_loop()
        until_s = loop.time() + within_s
        while True:
            bodies = await self._read(broker, topic, queue)
            if (bodies is not None and len(bodies) >= wanted) or loop.time() > until_s:
                return bodies or []
            await asyncio.sleep(0.1)

    async def _read(self, broker: Wire, topic: str, queue: int) -> list[bytes] | None:
        """Return the bodies, or None if the broker does not serve the queue yet."""
        bodies: list[bytes] = []
        offset = 0
        while True:
            pulled = await self.pull_if_served(broker, topic, queue=queue, offset=offset)
            if pulled is None:
                return None
            if not pulled.messages and pulled.next_offset <= offset:
                return bodies
            bodies += [message.body for message in pulled.messages]
            offset = max(
                pulled.next_offset, offset + len(pulled.messages)
            )  # after the messages that retention deleted

    async def pull_if_served(
        self, broker: Wire, topic: str, *, queue: int, offset: int
    ) -> Pulled | None:
        ext = pull_fields(topic, queue=queue, offset=offset, group=f"{self._names}-g")
        answer = await broker.ask(RequestCode.PULL_MESSAGE, ext)
        return None if "nextBeginOffset" not in answer.ext_fields else read_pull(answer)
