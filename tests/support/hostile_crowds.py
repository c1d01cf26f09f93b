"""Attacks of a hostile peer with many connections, with TLS, or by not reading: by name, for real nodes.

An attack ends when its peers have got what they wanted, or have been thrown out.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from staticfire.system_under_test.protocol.codes import RequestCode
from tests.support.costly_frames import (
    BROKER,
    NAME_SERVER,
    TOPIC,
    asked,
    expression,
    made_topic,
    pulled,
    sent,
)

PAUSE_S = 0.5
LEAVING_S = 2.0


@dataclass(slots=True)
class Crowd:
    """Connections of a hostile peer to one port; nothing is read unless the attack reads it."""

    port: int
    limit_s: float
    sockets: list[socket.socket] = field(default_factory=list)

    def connect(self) -> socket.socket:
        one = socket.create_connection(("127.0.0.1", self.port), timeout=self.limit_s)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sockets.append(one)
        return one

    def connect_by_tls(self) -> ssl.SSLSocket:
        one = tls_context().wrap_socket(self.connect())
        self.sockets[-1] = one
        return one

    def close(self) -> None:
        for one in self.sockets:
            one.close()


def tls_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def ask(one: socket.socket, request: bytes) -> int:
    """Send a request and read the answer; its size. Raises OSError, EOFError."""
    one.sendall(request)
    return read(one)


def read(one: socket.socket) -> int:
    """Read one answer; its size. Raises OSError, EOFError."""
    (size,) = struct.unpack(">i", read_exactly(one, 4))
    read_exactly(one, size)
    return int(size)


def read_exactly(one: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = one.recv(min(1 << 20, size - len(data)))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def member(client: str, groups: Iterable[str], producers: Iterable[str] = ()) -> bytes:
    """A heartbeat of one client."""
    data = {
        "clientID": client,
        "consumerDataSet": [
            {"groupName": name, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
             "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
             "subscriptionDataSet": [{"topic": TOPIC, "subString": "*"}]}
            for name in groups
        ],
        "producerDataSet": [{"groupName": name} for name in producers],
    }  # fmt: skip
    return asked(RequestCode.HEART_BEAT, json.dumps(data).encode())


# TLS


def first_hello(crowd: Crowd) -> None:
    crowd.connect_by_tls()


def hello() -> bytes:
    """A ClientHello."""
    outgoing = ssl.MemoryBIO()
    session = tls_context().wrap_bio(ssl.MemoryBIO(), outgoing)
    with suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


def hellos_at_once(crowd: Crowd) -> None:
    crowd.connect_by_tls()
    peers = [crowd.connect() for _ in range(500)]
    time.sleep(PAUSE_S)
    greeting = hello()
    for peer in peers:
        peer.sendall(greeting)
    for peer in peers:
        peer.recv(1)


def record_a_request(crowd: Crowd) -> None:
    """By TLS, each in a record of its own, all in one piece."""
    ask(crowd.connect(), made_topic("T", 4_096))
    peer = crowd.connect_by_tls()
    request = asked(RequestCode.GET_TOPIC_STATS_INFO, topic="T")
    for _ in range(100):
        peer.sendall(request)
    for _ in range(100):
        read(peer)


# Many connections


def streams(count: int, request: bytes, each: int) -> Callable[[Crowd], None]:
    def act(crowd: Crowd) -> None:
        peers = [crowd.connect() for _ in range(count)]
        time.sleep(PAUSE_S)
        stream = request * each
        for peer in peers:
            peer.sendall(stream)
        for peer in peers:
            for _ in range(each):
                read(peer)

    return act


def same_groups(crowd: Crowd) -> None:
    """100 clients, each in the same 450 groups; then one leaves."""
    names = [f"g{number}" for number in range(450)]
    peers = [crowd.connect() for _ in range(100)]
    for number, peer in enumerate(peers):
        peer.sendall(member(f"c{number}", names))
        drain(peers)
    drain(peers, LEAVING_S)
    peers[0].close()
    drain(peers[1:], LEAVING_S)


def drain(peers: list[socket.socket], seconds: float = 0.0) -> None:
    """Read what is there now, and what comes in so many seconds."""
    until_s = time.monotonic() + seconds
    while True:
        for peer in peers:
            with suppress(BlockingIOError):
                while peer.recv(1 << 20, socket.MSG_DONTWAIT):
                    pass
        if time.monotonic() >= until_s:
            return
        time.sleep(0.01)


def producers_that_leave(crowd: Crowd) -> None:
    """100 clients, each in 450 producer groups of its own, that leave at once."""
    peers = [crowd.connect() for _ in range(100)]
    for number, peer in enumerate(peers):
        ask(peer, member(f"c{number}", (), [f"g{number}-{n}" for n in range(450)]))
    for peer in peers:
        peer.close()
    time.sleep(LEAVING_S)


# Pulls


def held_pulls(connections: int) -> Callable[[Crowd], None]:
    def act(crowd: Crowd) -> None:
        main = crowd.connect()
        ask(main, member("c", ["g"]))
        ask(main, made_topic("Held"))
        request = pulled("g", topic="Held", sysFlag="6", suspendTimeoutMillis="60000")
        peers = [crowd.connect() for _ in range(connections)]
        for peer in peers:
            for _ in range(10):
                peer.sendall(request * 1_000)
        for peer in peers:
            ask(peer, asked(RequestCode.GET_MAX_OFFSET, topic=TOPIC, queueId="0"))
        main.sendall(sent("Held"))
        for peer in peers:
            for _ in range(10_000):
                read(peer)

    return act


def unread_pulls(by_tls: bool) -> Callable[[Crowd], None]:
    """A large body that is asked for again and again and not read."""

    def act(crowd: Crowd) -> None:
        main = crowd.connect()
        ask(main, member("c", ["g"]))
        ask(main, made_topic("Large"))
        ask(main, sent("Large", body=b"x" * 250_000))
        peer = crowd.connect_by_tls() if by_tls else crowd.connect()
        peer.sendall(pulled("g", topic="Large") * 4_000)
        time.sleep(LEAVING_S)

    return act


def filtered_pulls(crowd: Crowd) -> None:
    """An expression of 2,000 tokens for 20,000 messages that it does not want."""
    main = crowd.connect()
    ask(main, made_topic("Filtered"))
    text = " OR ".join(f"a = {number}" for number in range(500))
    beat = expression(text).replace(TOPIC.encode(), b"Filtered")
    ask(main, asked(RequestCode.HEART_BEAT, beat[beat.index(b'{"clientID"') :]))
    for _ in range(20):
        main.sendall(sent("Filtered", properties="a\x01-5\x02") * 1_000)
        for _ in range(1_000):
            read(main)
    for _ in range(5):
        ask(main, pulled("g", topic="Filtered", sysFlag="0", expressionType="SQL92"))


@dataclass(frozen=True, slots=True)
class Attack:
    """`port`: BROKER or NAME_SERVER."""

    port: str
    act: Callable[[Crowd], None]

    def carry_out(self, crowd: Crowd) -> str:
        """What became of the peers."""
        try:
            self.act(crowd)
        except TimeoutError:
            return f"not over after {crowd.limit_s:.0f} s"
        except (OSError, EOFError):
            return "connection ended"
        finally:
            crowd.close()
        return "answered"


CROWDS: dict[str, Attack] = {
    "first TLS handshake": Attack(BROKER, first_hello),
    "first TLS handshake of a name server": Attack(NAME_SERVER, first_hello),
    "500 TLS handshakes at once": Attack(BROKER, hellos_at_once),
    "100 costly requests, each in a TLS record": Attack(BROKER, record_a_request),
    "200 connections with 300 requests each at once": Attack(
        BROKER,
        streams(200, asked(RequestCode.GET_MAX_OFFSET, topic=TOPIC, queueId="0"), 300),
    ),
    "200 connections with 100 sends each at once": Attack(BROKER, streams(200, sent(), 100)),
    "100 clients in the same 450 groups, of which one leaves": Attack(BROKER, same_groups),
    "100 clients in 450 producer groups each, which leave": Attack(BROKER, producers_that_leave),
    "10,000 held pulls of one queue and a message": Attack(BROKER, held_pulls(1)),
    "40,000 held pulls of one queue and a message": Attack(BROKER, held_pulls(4)),
    "4,000 pulls of 256 KiB that are not read": Attack(BROKER, unread_pulls(False)),
    "4,000 pulls of 256 KiB that are not read, by TLS": Attack(BROKER, unread_pulls(True)),
    "SQL92 of 2,000 tokens for 20,000 messages": Attack(BROKER, filtered_pulls),
}
