"""Attacks of a hostile or broken peer on a port, by name: chunks of bytes from a seeded source."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand

Chunks = list[bytes]

INT_MAX = 0x7FFFFFFF
FRAME_ANNOUNCED_MAX = 16_777_212  # the largest length that a frame may announce


def length(size: int) -> bytes:
    return size.to_bytes(4, "big", signed=True)


def frame(header: bytes, body: bytes = b"", *, serialize_type: int = 0) -> bytes:
    """A frame around a header of the caller's making."""
    mark = bytes([serialize_type]) + len(header).to_bytes(3, "big")
    return length(len(mark) + len(header) + len(body)) + mark + header + body


def json_frame(text: str) -> bytes:
    return frame(text.encode())


def request(code: int, **ext: str) -> bytes:
    return RemotingCommand.request(code, ext).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """`is_fatal`: these bytes break the remoting protocol, so the connection must be closed."""

    make: Callable[[Random], Chunks]
    is_fatal: bool


def with_body(code: RequestCode, body: bytes, **ext: str) -> bytes:
    return RemotingCommand.request(int(code), ext, body).encode()


def _fatal(make: Callable[[Random], Chunks]) -> Attack:
    return Attack(make=make, is_fatal=True)


def _borne(make: Callable[[Random], Chunks]) -> Attack:
    return Attack(make=make, is_fatal=False)


def _random_bytes(random: Random) -> Chunks:
    """The first byte is no zero: a length that would be within the limit is another attack."""
    return [b"\xf7" + random.randbytes(random.randrange(50, 500)) for _ in range(5)]


def _random_frames(random: Random) -> Chunks:
    """Whole frames of random bytes, of a serialize type that is unknown."""
    return [length(40) + b"\x09" + random.randbytes(39) for _ in range(3)]


def _dribble(random: Random) -> Chunks:
    whole = request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    return [bytes([value]) for value in whole]


def _sized(data: bytes) -> bytes:
    return length(len(data)) + data


def _inflating_registration(random: Random) -> Chunks:
    """A million topics in 5 KB."""
    topics = length(1_000_000) + _sized(b"t 8 8 6 SINGLE_TAG") * 1_000_000
    body = zlib.compress(_sized(b"{}") + topics + _sized(b"[]"), 9)
    names = {"brokerName": "x", "brokerAddr": "10.9.9.9:1", "clusterName": "c", "brokerId": "0"}
    fields = {**names, "haServerAddr": "10.9.9.9:2", "compressed": "true", "bodyCrc32": "0"}
    return [with_body(RequestCode.REGISTER_BROKER, body, **fields)]


def _heartbeat(**parts: list[dict[str, object]]) -> Chunks:
    body = json.dumps({"clientID": "c", **parts}).encode()
    return [with_body(RequestCode.HEART_BEAT, body)]


def _large_batch(random: Random) -> Chunks:
    """20,000 empty messages."""
    empty = length(22) + b"\x00" * 18
    names = {"a": "p", "b": "T", "c": "TBW102", "i": "", "k": "false", "m": "true"}
    fields = {**names, **dict.fromkeys("efghj", "0"), "d": "8"}
    return [with_body(RequestCode.SEND_BATCH_MESSAGE, empty * 20_000, **fields)]


def _options_that_go_on(random: Random) -> Chunks:
    body = b"a=" + b"x\\\n" * 100_000
    codes = (RequestCode.UPDATE_BROKER_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG)
    return [with_body(code, body) for code in codes]


# Small for what they would cost a node that has no bounds.
COSTLY: dict[str, Attack] = {
    "header with too many fields": _fatal(
        lambda random: [request(RequestCode.GET_MAX_OFFSET, **{f"k{n}": "" for n in range(5_000)})]
    ),
    "header that is too long": _fatal(lambda random: [json_frame(" " * (1 << 20) + "{}")]),
    "binary header of empty fields": _fatal(
        lambda random: [
            frame(
                b"\x00\x0a\x00\x01\x99" + b"\x00" * 12 + length(60_000) + b"\x00" * 60_000,
                serialize_type=1,
            )
        ]
    ),
    "keys of keys": _borne(
        lambda random: [with_body(RequestCode.LOCK_BATCH_MQ, b"{" * 90 + b"1:1" + b"}:1" * 89)]
    ),
    "too many elements": _borne(
        lambda random: [
            with_body(RequestCode.LOCK_BATCH_MQ, opening + b"1," * 50_000 + b"1]")
            for opening in (b"[", b"{0:[")
        ]
    ),
    "references to references": _borne(
        lambda random: [
            with_body(
                RequestCode.LOCK_BATCH_MQ,
                b'{"a":[' + b"1," * 5_000 + b'1],"b":[' + b'{"$ref":"$.a"},' * 3_000 + b"1]}",
            )
        ]
    ),
    "options that go on": _borne(_options_that_go_on),
    "registration that inflates": _borne(_inflating_registration),
    "heartbeat of too many groups": _borne(
        lambda random: _heartbeat(consumerDataSet=[{"groupName": f"g{n}"} for n in range(3_000)])
    ),
    "heartbeat with dashes": _borne(
        lambda random: _heartbeat(
            consumerDataSet=[
                {
                    "groupName": "g",
                    "subscriptionDataSet": [
                        {"topic": "T", "subString": "-" * 16_000, "expressionType": "SQL92"}
                    ],
                }
            ]
        )
    ),
    "batch of too many messages": _borne(_large_batch),
    "offset that no queue has": _borne(
        lambda random: [
            request(
                RequestCode.UPDATE_CONSUMER_OFFSET,
                consumerGroup="g",
                topic="T",
                queueId="0",
                commitOffset=str(2**63 - 1),
            )
        ]
    ),
}

ATTACKS: dict[str, Attack] = {
    **COSTLY,
    "random bytes": _fatal(_random_bytes),
    "random frames": _fatal(_random_frames),
    "length 0": _fatal(lambda random: [length(0)]),
    "length 3": _fatal(lambda random: [length(3) + b"abc"]),
    "negative length": _fatal(lambda random: [length(-1), b"x" * 100]),
    "largest length": _fatal(lambda random: [length(INT_MAX), b"x" * 100]),
    "length above the limit": _fatal(lambda random: [length(FRAME_ANNOUNCED_MAX + 1)]),
    "header longer than its frame": _fatal(lambda random: [length(8) + b"\x00\xff\xff\xff" * 2]),
    "header that is no JSON": _fatal(lambda random: [json_frame("{code:")]),
    "header that is a list": _fatal(lambda random: [json_frame("[1, 2]")]),
    "header nested too deep": _fatal(lambda random: [json_frame("[" * 100_000)]),
    "code that is text": _fatal(lambda random: [json_frame('{"code": "ten"}')]),
    "code beyond 32 bits": _fatal(lambda random: [json_frame('{"code": 99999999999}')]),
    "code of a megabyte": _fatal(lambda random: [json_frame(f'{{"code": "{"9" * 1_000_000}"}}')]),
    "ext fields that are a list": _fatal(
        lambda random: [json_frame('{"code": 10, "extFields": [1]}')]
    ),
    "binary header that ends early": _fatal(
        lambda random: [frame(b"\x00\x0a\x00", serialize_type=1)]
    ),
    "web browser": _fatal(lambda random: [b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n"]),
    "TLS hello": _fatal(lambda random: [b"\x16\x03\x01\x02\x00" + random.randbytes(512)]),
    "nothing at all": _borne(lambda random: []),
    "half a length": _borne(lambda random: [b"\x00\x00"]),
    "half a frame": _borne(lambda random: [length(1000), b"\x00" * 500]),
    "dribble": _borne(_dribble),
    "unknown codes": _borne(
        lambda random: [request(code) for code in (-1, 0, 9999, INT_MAX) for _ in range(50)]
    ),
    "requests without fields": _borne(
        lambda random: [request(int(code)) for code in RequestCode for _ in range(3)]
    ),
    "requests with senseless fields": _borne(
        lambda random: [
            request(int(code), topic="\x00\x01", queueId="-7", offset="1e9", a="x", b="y")
            for code in RequestCode
        ]
    ),
    "requests with senseless bodies": _borne(
        lambda random: [
            RemotingCommand.request(int(code), {"topic": "T"}, random.randbytes(300)).encode()
            for code in RequestCode
        ]
    ),
    "responses without a request": _borne(
        lambda random: [json_frame(f'{{"code": 0, "flag": 1, "opaque": {n}}}') for n in range(100)]
    ),
    "flood": _borne(lambda random: [request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) * 500]),
}


# The HA port speaks 8-byte offsets, so everything is an offset to it.
HA_ATTACKS: dict[str, Attack] = {
    "random bytes": _fatal(lambda random: [b"\x7f" + random.randbytes(799)]),
    "negative offset": _fatal(lambda random: [(-1).to_bytes(8, "big", signed=True)]),
    "acknowledgement of everything": _fatal(
        lambda random: [(0).to_bytes(8, "big"), (2**62).to_bytes(8, "big")]
    ),
    "remoting command": _fatal(lambda random: [request(RequestCode.SEND_MESSAGE) * 3]),
    "web browser": _fatal(lambda random: [b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n"]),
    "half an offset": _borne(lambda random: [b"\x00\x00\x00"]),
    "offset beyond the end": _borne(lambda random: [(2**62).to_bytes(8, "big")]),
    "flood": _borne(lambda random: [(0).to_bytes(8, "big") * 10_000]),
}
