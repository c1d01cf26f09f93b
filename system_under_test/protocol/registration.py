"""The compressed body of a broker's registration (RocketMQ: RegisterBrokerBody).

    one zlib stream of: length 4, DataVersion as JSON, topic count 4,
    per topic (length 4, `name readQueues writeQueues perm filterType`), length 4, filter servers as a JSON array

The order flag and the system flag of a topic are not part of it.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

from staticfire.system_under_test.protocol.json_dialect import (
    BodyError,
    loads_large_request,
    loads_request,
)
from staticfire.system_under_test.protocol.json_writer import dumps_fastjson

# A broker creates up to 18,000 topics without an administrator: 8,000 for sends, two for each of 5,000 groups.
TOPICS_MAX = 20_000
FILTER_SERVERS_MAX = 1_000
SIZE_MAX = 8 << 20  # inflated bytes: zlib can inflate a small body a thousandfold
ELEMENTS_MAX = 10 * TOPICS_MAX  # JSON elements of an uncompressed body: a topic has nine

_INT = struct.Struct(">i")
_TOPIC_PROPERTIES = ("topicName", "readQueueNums", "writeQueueNums", "perm", "topicFilterType")


def read_registration(body: bytes) -> object:
    """The document of an uncompressed body. Raises BodyError: it is not JSON, or lists too much."""
    document = loads_large_request(body, size_max=SIZE_MAX, elements_max=ELEMENTS_MAX)
    if isinstance(document, dict):
        wrapper = document.get("topicConfigSerializeWrapper", document)
        topics = wrapper.get("topicConfigTable") if isinstance(wrapper, dict) else None
        _check_count("topics", len(topics) if isinstance(topics, dict) else 0, TOPICS_MAX)
        servers = document.get("filterServerList")
        count = len(servers) if isinstance(servers, list) else 0
        _check_count("filter servers", count, FILTER_SERVERS_MAX)
    return document


def _check_count(what: str, count: int, count_max: int) -> None:
    if count > count_max:
        raise BodyError(f"registration has {count} {what}; allowed: up to {count_max}")


def read_compressed_registration(body: bytes) -> dict[str, object]:
    """The document of a compressed body, as an uncompressed body would have it.

    Raises BodyError: it is not a whole zlib stream, inflates too far, lists too much, or is malformed inside.
    """
    data = _inflate(body)
    version, position = _take(data, 0)
    count, position = _count(data, position)
    _check_count("topics", count, TOPICS_MAX)
    topics: dict[str, dict[str, str]] = {}
    for _ in range(count):
        text, position = _take(data, position)
        topic = _read_topic(text)
        topics[topic["topicName"]] = topic
    filter_servers, position = _take(data, position)
    servers = loads_request(filter_servers)
    if isinstance(servers, list):
        _check_count("filter servers", len(servers), FILTER_SERVERS_MAX)
    wrapper = {"topicConfigTable": topics, "dataVersion": loads_request(version)}
    return {"topicConfigSerializeWrapper": wrapper, "filterServerList": servers}


def _inflate(body: bytes) -> bytes:
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(body, SIZE_MAX)
    except zlib.error as error:
        raise BodyError(f"registration is not a zlib stream: {error}") from None
    if not inflater.eof:
        raise BodyError(f"registration is cut, or inflates beyond {SIZE_MAX} bytes")
    return data


def _read_topic(text: bytes) -> dict[str, str]:
    values = text.decode("utf-8", "replace").split(" ", len(_TOPIC_PROPERTIES))
    if len(values) != len(_TOPIC_PROPERTIES):
        raise BodyError(
            f"registration has topic {text[:80]!r}, allowed {len(_TOPIC_PROPERTIES)} words"
        )
    return dict(zip(_TOPIC_PROPERTIES, values, strict=True))


def _count(data: bytes, position: int) -> tuple[int, int]:
    """The number at `position` and the position behind it."""
    if position + _INT.size > len(data):
        raise BodyError(f"registration ends at {len(data)}, inside a number")
    (number,) = _INT.unpack_from(data, position)
    return number, position + _INT.size


def _take(data: bytes, position: int) -> tuple[bytes, int]:
    """The bytes behind a length, and the position behind them."""
    size, start = _count(data, position)
    if not 0 <= size <= len(data) - start:
        raise BodyError(f"registration has length {size}, allowed 0..{len(data) - start}")
    return data[start : start + size], start + size


def write_compressed_registration(document: dict[str, Any]) -> bytes:
    """The compressed form of a registration's document."""
    wrapper = document["topicConfigSerializeWrapper"]
    topics = [
        " ".join(str(topic[name]) for name in _TOPIC_PROPERTIES).encode()
        for topic in wrapper["topicConfigTable"].values()
    ]
    parts = [
        _sized(dumps_fastjson(wrapper["dataVersion"])),
        _INT.pack(len(topics)),
        *map(_sized, topics),
        _sized(dumps_fastjson(document["filterServerList"])),
    ]
    return zlib.compress(b"".join(parts), 9)


def _sized(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data
