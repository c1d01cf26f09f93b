"""The compressed body of a broker's registration (RocketMQ: RegisterBrokerBody).

    one zlib stream of: length 4, DataVersion as JSON, topic count 4,
    per topic (length 4, `name readQueues writeQueues perm filterType`), length 4, filter servers as a JSON array

The order flag and the system flag of a topic are not part of it.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

from system_under_test.protocol.json_dialect import BodyError, loads
from system_under_test.protocol.json_writer import dumps_fastjson

__all__ = ["INFLATED_SIZE_MAX", "read_compressed_registration", "write_compressed_registration"]

INFLATED_SIZE_MAX = 1 << 26  # four times the largest frame; a small body may inflate a thousandfold

_INT = struct.Struct(">i")
_TOPIC_PROPERTIES = ("topicName", "readQueueNums", "writeQueueNums", "perm", "topicFilterType")


def read_compressed_registration(body: bytes) -> dict[str, Any]:
    """The document that the body would have been without compression.

    Raises:
        BodyError: it is no whole zlib stream, inflates too far, or holds something else.
    """
    data = _inflate(body)
    version, position = _take(data, 0)
    count, position = _count(data, position)
    topics: dict[str, dict[str, str]] = {}
    for _ in range(count):
        text, position = _take(data, position)
        topic = _read_topic(text)
        topics[topic["topicName"]] = topic
    filter_servers, position = _take(data, position)
    return {
        "topicConfigSerializeWrapper": {"topicConfigTable": topics, "dataVersion": loads(version)},
        "filterServerList": loads(filter_servers),
    }


def _inflate(body: bytes) -> bytes:
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(body, INFLATED_SIZE_MAX)
    except zlib.error as error:
        raise BodyError(f"registration is not a zlib stream: {error}") from None
    if not inflater.eof:
        raise BodyError(f"registration is cut, or inflates beyond {INFLATED_SIZE_MAX} bytes")
    return data


def _read_topic(text: bytes) -> dict[str, str]:
    values = text.decode("utf-8", "replace").split(" ")
    if len(values) != len(_TOPIC_PROPERTIES):
        raise BodyError(
            f"registration has topic {text!r:.80}, allowed {len(_TOPIC_PROPERTIES)} words"
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
