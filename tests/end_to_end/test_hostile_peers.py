"""Hostile bytes on the ports of real processes: the nodes live, serve, and keep their memory."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from staticfire.harness.local_cluster.ports import free_ports
from staticfire.system_under_test.client.consumer.pulling import pull_command
from staticfire.system_under_test.client.consumer.subscription import Subscription
from staticfire.system_under_test.client.producer.producer import Producer, ProducerConfig
from staticfire.system_under_test.client.producer.send_result import SendResult
from staticfire.system_under_test.protocol.codes import SendStatus
from staticfire.system_under_test.protocol.command import RemotingCommand, decode_command
from staticfire.system_under_test.protocol.frames import FrameDecoder
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.runtime.real_env import make_env
from tests.support.hostile_peers import (
    ATTACKS,
    FRAME_ANNOUNCED_MAX,
    HA_ATTACKS,
    Attack,
    length,
)
from tests.support.local_processes import ROOT, LocalNode, LocalPair
from tests.system_under_test.broker.bench import send_ext

pytestmark = pytest.mark.real

TOPIC = "Survivors"
MIB = 1 << 20
ANSWER_TIMEOUT_S = 60.0
UNFINISHED_EACH = 2 * MIB
ATTACKERS = 200
GROWTH_MAX = (
    224 * MIB
)  # the limit of 128 MiB for all peers, and what buffers cost beyond their content


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalPair]:
    with LocalPair(tmp_path_factory.mktemp("pair")) as pair:
        yield pair


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=ANSWER_TIMEOUT_S)


def is_thrown_out(connection: socket.socket) -> bool:
    """Whether the node ends the connection, within a time in which it otherwise only answers."""
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def attack(port: int, made: Attack) -> None:
    with connect(port) as connection:
        try:
            for chunk in made.make(Random(7)):
                connection.sendall(chunk)
        except ConnectionError:
            assert made.is_fatal
            return
        if made.is_fatal:
            assert is_thrown_out(connection)


async def send_one(name_server_address: str, body: bytes = b"still there?") -> SendResult:
    config = ProducerConfig(
        group="survivors", name_servers=(name_server_address,), client_id="127.0.0.1@survivor"
    )
    producer = Producer(make_env("survivor"), config)
    await producer.start()
    result = await producer.send(Message(topic=TOPIC, body=body))
    await producer.stop()
    return result


def serves(pair: LocalPair) -> bool:
    return asyncio.run(send_one(pair.name_server_address)).status is SendStatus.SEND_OK


def resident_bytes(node: LocalNode) -> int:
    fields = Path(f"/proc/{node.pid}/status").read_text().split("VmRSS:")[1]
    return int(fields.split()[0]) * 1024


def test_every_attack_on_every_port_is_borne(pair: LocalPair) -> None:
    for port in (port_of(pair.name_server_address), port_of(pair.master_address)):
        for made in ATTACKS.values():
            attack(port, made)
    for made in HA_ATTACKS.values():
        attack(port_of(pair.master_address) + 1, made)
    assert serves(pair)
    assert "peer broke the protocol" in pair.master.log_tail() + pair.name_server.log_tail()


def test_announced_frames_that_never_come_do_not_fill_the_memory(pair: LocalPair) -> None:
    """Each peer announces 16 MiB and sends 2 of them: together more than a node may hold."""
    before = resident_bytes(pair.master)
    port = port_of(pair.master_address)
    peers = [connect(port) for _ in range(ATTACKERS)]
    refused = 0
    for peer in peers:
        try:
            peer.sendall(length(FRAME_ANNOUNCED_MAX) + bytes(UNFINISHED_EACH))
        except ConnectionError:
            refused += 1
    assert serves(pair)  # its answer comes after everything sent before has been read
    growth = resident_bytes(pair.master) - before
    for peer in peers:
        peer.close()
    assert growth < GROWTH_MAX, f"{growth / MIB:.0f} MiB more, {refused} refused"


def test_answers_that_no_client_reads_do_not_fill_the_memory(pair: LocalPair) -> None:
    """Each peer pulls 40 MiB, less than one connection may leave unread, and reads nothing."""
    large = asyncio.run(send_one(pair.name_server_address, b"x" * MIB))
    everything = Subscription(TOPIC, "*", version_ms=0)
    command = pull_command(
        "thieves", large.queue, everything, offset=large.queue_offset, count_max=1
    )
    before = resident_bytes(pair.master)
    peers = [connect(port_of(pair.master_address)) for _ in range(20)]
    refused = 0
    for peer in peers:
        try:
            peer.sendall(command.encode() * 40)
        except ConnectionError:
            refused += 1
    assert serves(pair)
    growth = resident_bytes(pair.master) - before
    for peer in peers:
        peer.close()
    assert growth < GROWTH_MAX, f"{growth / MIB:.0f} MiB more, {refused} refused"


def test_peers_cannot_take_the_descriptors_that_the_store_needs(tmp_path: Path) -> None:
    """A broker that may open 160 files, and 600 connections: it goes on making queues and files for them."""
    [port] = free_ports(1)
    store = str(tmp_path / "store")
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (160, 160));"
        " from system_under_test.__main__ import run; sys.exit(run(sys.argv[1:]))"
    )
    arguments = ["broker", "--broker-name", "a", "--port", str(port), "--store", store]
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as broker:
        try:
            assert broker.stdout is not None
            assert broker.stdout.readline().startswith("ready")
            with connect(port) as early:
                held = [begin_to_connect(port + apart) for _ in range(200) for apart in (0, 1, -2)]
                for number in range(20):
                    early.sendall(send_to_a_new_topic(number))
                    assert answer_code(early) == 0
                for one in held:
                    one.close()
        finally:
            broker.terminate()
        _, log = broker.communicate(timeout=60)
    assert broker.returncode == 0
    assert "too many connections" in log
    assert "Traceback" not in log


def begin_to_connect(port: int) -> socket.socket:
    connection = socket.socket()
    connection.setblocking(False)
    connection.connect_ex(("127.0.0.1", port))
    return connection


def send_to_a_new_topic(number: int) -> bytes:
    header = send_ext(f"New-{number}", properties={})
    return RemotingCommand.request(310, header, body=b"x").encode()


def answer_code(connection: socket.socket) -> int:
    decoder = FrameDecoder()
    while data := connection.recv(65536):
        for frame in decoder.feed(data):
            return decode_command(frame).code
    raise ConnectionError("no answer came")
