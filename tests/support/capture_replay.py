"""Plays recorded sessions of real clients against nodes of ours, in a simulated world and at the recorded times.

A capture is one client's traffic with a name server, a master and a slave, a frame a line. Its requests are sent byte
for byte, except for positions in the commit log that the real broker had sent to the client; ours are elsewhere.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from staticfire.harness.simulation.hosts.world import World
from staticfire.system_under_test.broker.assembly.broker import main as broker_main
from staticfire.system_under_test.broker.config import BrokerConfig, BrokerRole
from staticfire.system_under_test.name_server.config import NameServerConfig
from staticfire.system_under_test.name_server.name_server import main as name_server_main
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand, decode_command
from staticfire.system_under_test.protocol.frames import FrameDecoder
from staticfire.system_under_test.protocol.headers import CreateTopicHeader
from staticfire.system_under_test.remoting import RemotingClient
from staticfire.system_under_test.runtime.env import Env
from tests.support.small_index import SMALL_INDEX

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
RECORDED_CUT = 200  # bytes: a longer binary body is recorded up to here
HOSTS = {"ns": ("10.0.0.1", 9876), "master": ("10.0.0.2", 20911), "slave": ("10.0.0.3", 21911)}
CLIENT = "client"
RECORDED_ADDRESSES = {"master": "127.0.0.1:20911", "slave": "127.0.0.1:21911"}
START_S = 15.0  # by then the slave has heard of the topics
RESPONSE = 1
ANSWERS_WAIT_S = 25.0  # the longest hold of a pull and a bit
# From the end of the session before: by its time stamps, this one saw a delayed message of it arrive.
PAUSE_S = {"cpp-push": 0.54}
LONG_PAUSE_S = 5.0
PHYSICAL_OFFSET_AT = 28  # in a record
# The C++ client sends messages back to the store host that it reads in them, past the proxy that recorded. In this
# session it was the messages of the pulls 12 and 11: the retry topic has six, of just their sizes.
SENT_BACK_PAST_THE_PROXY = {"cpp-push-fail-retry": (("master", 3), (12, 11))}
SEND_BACK_AT_S = 0.212

Conversation = tuple[str, int]  # node, number of the recorded connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One recorded frame. `body` may be shorter than `body_size`: see RECORDED_CUT."""

    at_s: float
    conversation: Conversation
    from_client: bool
    head: dict[str, Any]
    raw_head: bytes
    body: bytes
    body_size: int

    @property
    def is_response(self) -> bool:
        return bool(self.head["flag"] & RESPONSE)

    @property
    def ext(self) -> dict[str, str]:
        found: dict[str, str] = self.head.get("extFields") or {}
        return found


@cache
def read_capture(name: str) -> tuple[Frame, ...]:
    """The frames of `name`.jsonl, in the order in which they were seen."""
    lines = map(json.loads, (CAPTURES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines())
    return tuple(_frame(line) for line in lines if "rawhead" in line)


def _frame(line: dict[str, Any]) -> Frame:
    text: str = line["body"]
    return Frame(
        at_s=line["t"],
        conversation=(line["to"], line["conn"]),
        from_client=line["dir"] == "C>S",
        head=line["head"],
        raw_head=line["rawhead"].encode(),
        body=bytes.fromhex(text[4:]) if text.startswith("hex:") else text.encode(),
        body_size=line["body_len"],
    )


@dataclass(slots=True)
class Heard:
    """What the nodes have sent on one connection."""

    answers: dict[int, RemotingCommand] = field(default_factory=dict)  # by opaque
    requests: list[RemotingCommand] = field(default_factory=list)


class Positions:
    """Where in our commit log lies what the real broker had at another place."""

    def __init__(self) -> None:
        self._ours: dict[int, int] = {}

    def learn(self, recorded: Frame, ours: RemotingCommand) -> None:
        for name in ("msgId", "offsetMsgId"):
            if len(recorded.ext.get(name, "")) == 32 and name in ours.ext_fields:
                theirs = int(recorded.ext[name][16:], 16)
                self._ours[theirs] = int(ours.ext_fields[name][16:], 16)
        if "commitLogOffset" in recorded.ext and "commitLogOffset" in ours.ext_fields:
            self._ours[int(recorded.ext["commitLogOffset"])] = int(
                ours.ext_fields["commitLogOffset"]
            )
        if recorded.is_response and ours.body and recorded.body[4:8] == ours.body[4:8]:
            self._learn_records(recorded.body, ours.body)

    def _learn_records(self, recorded: bytes, ours: bytes) -> None:
        """Records of pulled bodies; only the first ones of the recorded body are there."""
        at = 0
        while at + PHYSICAL_OFFSET_AT + 8 <= min(len(recorded), len(ours)):
            (theirs,) = struct.unpack_from(">q", recorded, at + PHYSICAL_OFFSET_AT)
            (here,) = struct.unpack_from(">q", ours, at + PHYSICAL_OFFSET_AT)
            self._ours[theirs] = here
            at += int(struct.unpack_from(">i", ours, at)[0])

    def translate(self, frame: Frame) -> bytes:
        """The recorded header, with our positions in it."""
        changed = {
            name: str(self._ours[int(frame.ext[name])])
            for name in ("offset", "commitLogOffset")
            if name in frame.ext and int(frame.ext[name]) in self._ours
        }
        if not changed:
            return frame.raw_head
        return json.dumps({**frame.head, "extFields": {**frame.ext, **changed}}).encode()


class _Peer(asyncio.Protocol):
    """The client's end of one recorded connection."""

    def __init__(self, on_command: Callable[[RemotingCommand], None]) -> None:
        self._decoder = FrameDecoder()
        self._on_command = on_command
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in self._decoder.feed(data):
            self._on_command(decode_command(frame))

    def send(self, head: bytes, body: bytes) -> None:
        assert self.transport is not None
        size = struct.pack(">II", 4 + len(head) + len(body), len(head))
        self.transport.write(size + head + body)


class Replay:
    """Our nodes, and what they answer to recorded sessions played one after the other."""

    def __init__(self, *, topic: str, seed: int = 1) -> None:
        self._topic = topic
        self.world = World(seed, guard=False)
        for name, (address, _) in HOSTS.items():
            self.world.add_host(name, address)
        self.world.add_host(CLIENT, "10.0.0.9")
        self.heard: dict[str, dict[Conversation, Heard]] = {}
        self._positions = Positions()

    def play(self, *names: str) -> None:
        """Start the nodes and play the captures, each when the one before has ended."""

        async def story() -> None:
            self._start_nodes()
            await asyncio.sleep(START_S / 2)
            await self._as_client(self._create_topic)
            await asyncio.sleep(START_S / 2)
            for name in names:
                await asyncio.sleep(PAUSE_S.get(name, LONG_PAUSE_S))
                await self._as_client(lambda env, name=name: self._play(name))  # type: ignore[misc]

        self.world.run(story)

    async def _as_client(self, main: Callable[[Env], Awaitable[None]]) -> None:
        failures: list[BaseException] = []

        async def guarded(env: Env) -> None:
            try:
                await main(env)
            except BaseException as error:
                failures.append(error)

        process = self.world.hosts[CLIENT].start(CLIENT, guarded)
        while process.alive:
            await asyncio.sleep(0.01)
        if failures:
            raise failures[0]

    def _start_nodes(self) -> None:
        config = NameServerConfig(listen_host=HOSTS["ns"][0], listen_port=HOSTS["ns"][1])
        self.world.hosts["ns"].start("ns", lambda env: name_server_main(env, config))
        for name in ("master", "slave"):
            self._start_broker(name, _broker_config(name))

    def _start_broker(self, name: str, config: BrokerConfig) -> None:
        self.world.hosts[name].start(name, lambda env: broker_main(env, config))

    async def _create_topic(self, env: Env) -> None:
        header = CreateTopicHeader(
            topic=self._topic,
            default_topic="TBW102",
            read_queue_nums=4,
            write_queue_nums=4,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        )
        command = RemotingCommand.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header.to_ext())
        client = RemotingClient(env)
        address, port = HOSTS["master"]
        await client.invoke(f"{address}:{port}", command, 3.0)
        await client.close()

    async def _play(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        frames = read_capture(name)
        recorded = {
            (frame.conversation, frame.head["opaque"]): frame
            for frame in frames
            if not frame.from_client and frame.is_response
        }
        pushed = [frame for frame in frames if not frame.from_client and not frame.is_response]
        heard = self.heard[name] = {frame.conversation: Heard() for frame in frames}
        peers: dict[Conversation, _Peer] = {}
        start_s = loop.time()

        def on_command(conversation: Conversation, command: RemotingCommand) -> None:
            here = heard[conversation]
            if command.flag & RESPONSE:
                here.answers[command.opaque] = command
                if (conversation, command.opaque) in recorded:
                    self._positions.learn(recorded[conversation, command.opaque], command)
                return
            here.requests.append(command)
            same = [
                f
                for f in pushed
                if (f.conversation, f.head["code"]) == (conversation, command.code)
            ]
            number = sum(one.code == command.code for one in here.requests)
            if number <= len(same):
                self._positions.learn(same[number - 1], command)

        if name in SENT_BACK_PAST_THE_PROXY:
            loop.call_later(SEND_BACK_AT_S, self._send_back, name, peers)
        for frame in frames:
            if not frame.from_client:
                continue
            await asyncio.sleep(max(0.0, start_s + frame.at_s - loop.time()))
            conversation = frame.conversation
            if conversation not in peers:
                peer = _Peer(lambda command, at=conversation: on_command(at, command))  # type: ignore[misc]
                address, port = HOSTS[conversation[0]]
                await loop.create_connection(lambda peer=peer: peer, address, port)  # type: ignore[misc]
                peers[conversation] = peer
            peers[conversation].send(self._positions.translate(frame), whole_body(frame))
        deadline_s = loop.time() + ANSWERS_WAIT_S
        while loop.time() < deadline_s and any(
            opaque not in heard[conversation].answers for conversation, opaque in recorded
        ):
            await asyncio.sleep(0.1)
        for peer in peers.values():
            if peer.transport is not None:
                peer.transport.close()

    def _send_back(self, name: str, peers: dict[Conversation, _Peer]) -> None:
        """Send the requests that the proxy did not see, in the form in which a sniffer saw others."""
        conversation, pulls = SENT_BACK_PAST_THE_PROXY[name]
        line = (CAPTURES / "cpp-sendback-direct.jsonl").read_text(encoding="utf-8").splitlines()[0]
        (sniffed,) = FrameDecoder().feed(json.loads(line)["data"].encode("latin-1"))
        head = json.loads(sniffed[4:])
        group = next(
            frame.ext["consumerGroup"]
            for frame in read_capture(name)
            if frame.head["code"] == RequestCode.PULL_MESSAGE
        )
        answers = self.heard[name][conversation].answers
        offsets = [at for opaque in pulls for at in physical_offsets(answers[opaque].body)]
        for number, offset in enumerate(offsets):
            ext = {**head["extFields"], "group": group, "offset": str(offset)}
            raw = json.dumps({**head, "extFields": ext, "opaque": 1000 + number}).encode()
            peers[conversation].send(raw, b"")


def physical_offsets(records: bytes) -> list[int]:
    found, at = [], 0
    while at < len(records):
        found.append(int(struct.unpack_from(">q", records, at + PHYSICAL_OFFSET_AT)[0]))
        at += int(struct.unpack_from(">i", records, at)[0])
    return found


def whole_body(frame: Frame) -> bytes:
    """The body in its recorded size; what was cut is filled up."""
    return frame.body.ljust(frame.body_size, b"\0")


def _broker_config(name: str) -> BrokerConfig:
    """As the broker of the captures was set up, with small files."""
    address, port = HOSTS[name]
    other, other_port = HOSTS["slave" if name == "master" else "master"]
    return BrokerConfig(
        broker_name="broker-a",
        broker_id=0 if name == "master" else 1,
        role=BrokerRole.ASYNC_MASTER if name == "master" else BrokerRole.SLAVE,
        listen_host=address,
        listen_port=port,
        name_servers=(f"{HOSTS['ns'][0]}:{HOSTS['ns'][1]}",),
        sync_flush=True,
        default_topic_queues=4,
        commit_log_file_size=1 << 20,
        consume_queue_file_size=4000,
        **SMALL_INDEX,
        ha_peers=(f"{other}:{other_port + 1}",),
    )
