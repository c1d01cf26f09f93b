"""Message records, properties and ids (RocketMQ: MessageDecoder, CommitLog.MessageExtEncoder).

The layout is the same in the commit log, in pull answers and in query answers.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from zlib import crc32

from staticfire.system_under_test.protocol.unique_id import UniqueIdGenerator as UniqueIdGenerator

MAGIC_MESSAGE = -626843481  # 0xDAA320A7, MessageDecoder.MESSAGE_MAGIC_CODE
MAGIC_BLANK = -875286124  # 0xCBD43194, CommitLog.BLANK_MAGIC_CODE
TOPIC_SIZE_MAX = 127
PROPERTIES_SIZE_MAX = 32_767

BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
_HOST_FLAGS = BORN_HOST_V6 | STORE_HOST_V6

NAME_END = "\x01"
PROPERTY_END = "\x02"

Address = tuple[str, int]
Buffer = bytes | bytearray | memoryview

_HEAD = struct.Struct(">iiIiiqqiq")  # total size ... born timestamp: 48 bytes
_V4 = struct.Struct(">4si")
_V6 = struct.Struct(">16si")
_LONG = struct.Struct(">q")
_TAIL = struct.Struct(">iqi")  # reconsume times, prepared transaction offset, body length
_SHORT = struct.Struct(">h")
_HEAD_SIZE = _HEAD.size
_OFFSETS = struct.Struct(">qq")
_OFFSETS_AT = 20
_LAST_SYS_FLAG_AT = 39
# Layout of everything before the body, and its sys flags, by whether born host and store host are IPv6.
_FRONTS = {
    (born_is_v6, store_is_v6): (
        struct.Struct(f">iiIiiqqiq{20 if born_is_v6 else 8}sq{20 if store_is_v6 else 8}siqi"),
        BORN_HOST_V6 * born_is_v6 | STORE_HOST_V6 * store_is_v6,
    )
    for born_is_v6 in (False, True)
    for store_is_v6 in (False, True)
}
_LAYOUTS = {flags: front for front, flags in _FRONTS.values()}
RECORD_SIZE_MIN = 91


class RecordError(ValueError):
    """Bytes are not a valid record, or a message cannot be encoded as one."""


@dataclass(slots=True)  # not kw_only, for speed: made for every send
class Message:
    """A message as its record holds it. Hosts are (IP address, port); times are milliseconds since 1970."""

    topic: str
    body: bytes
    properties: dict[str, str] = field(default_factory=dict)
    flag: int = 0
    sys_flag: int = 0
    queue_id: int = 0
    queue_offset: int = 0
    physical_offset: int = 0
    born_timestamp_ms: int = 0
    born_host: Address = ("0.0.0.0", 0)
    store_timestamp_ms: int = 0
    store_host: Address = ("0.0.0.0", 0)
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    body_crc: int = 0
    size_bytes: int = 0  # of the whole record, when decoded
    # if set, the record holds it instead of `properties`; it may name a property twice
    property_text: str | None = None


def body_checksum(body: Buffer) -> int:
    return crc32(body) & 0x7FFFFFFF


# --- records -------------------------------------------------------------------------------------


def encode_record(message: Message) -> bytearray:
    """The record, with the offsets and the store timestamp of `message`; `patch_record` can replace them later.

    Raises RecordError: topic or properties are too long, or a property holds a control character of the format.
    """
    topic = _topic_field(message.topic)
    if message.property_text is None:
        properties = encode_properties(message.properties)
    else:
        properties = _encode_text(message.property_text)
    if len(properties) > PROPERTIES_SIZE_MAX:
        raise RecordError(
            f"properties are {len(properties)} bytes; allowed: up to {PROPERTIES_SIZE_MAX}"
        )
    front, host_flags, born, store = _front(message.born_host, message.store_host)
    body = message.body
    size = front.size + len(body) + len(topic) + 2 + len(properties)
    head = front.pack(
        size,
        MAGIC_MESSAGE,
        crc32(body) & 0x7FFFFFFF,
        message.queue_id,
        message.flag,
        message.queue_offset,
        message.physical_offset,
        message.sys_flag & ~_HOST_FLAGS | host_flags,
        message.born_timestamp_ms,
        born,
        message.store_timestamp_ms,
        store,
        message.reconsume_times,
        message.prepared_transaction_offset,
        len(body),
    )
    return bytearray().join((head, body, topic, _SHORT.pack(len(properties)), properties))


@lru_cache(maxsize=4096)  # hosts are few, and every message names two
def _front(born_host: Address, store_host: Address) -> tuple[struct.Struct, int, bytes, bytes]:
    """Layout and flags of a record with these hosts, and the hosts."""
    born, born_is_v6 = encode_host(born_host)
    store, store_is_v6 = encode_host(store_host)
    return (*_FRONTS[born_is_v6, store_is_v6], born, store)


@lru_cache(maxsize=4096)  # topics are few, and every message names one
def _topic_field(topic: str) -> bytes:
    """Length and name."""
    name = topic.encode()
    if not 0 < len(name) <= TOPIC_SIZE_MAX:
        raise RecordError(f"topic is {len(name)} bytes; allowed: 1 to {TOPIC_SIZE_MAX}")
    return bytes((len(name),)) + name


def patch_record(
    record: bytearray, *, queue_offset: int, physical_offset: int, store_timestamp_ms: int
) -> None:
    """Set the fields that are known only once the record has its position in the log."""
    _OFFSETS.pack_into(record, _OFFSETS_AT, queue_offset, physical_offset)
    at = _HEAD_SIZE + (20 if record[_LAST_SYS_FLAG_AT] & BORN_HOST_V6 else 8)
    _LONG.pack_into(record, at, store_timestamp_ms)


def decode_record(buffer: Buffer, position: int = 0, *, check_crc: bool = False) -> Message:
    """Decode the record at `position`.

    Raises RecordError: it is cut off, has another magic, lengths that do not agree, or (if asked) a wrong checksum.
    """
    try:
        return _decode(buffer, position, check_crc)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise RecordError(f"record at {position} is malformed: {error}") from error


def _decode(buffer: Buffer, position: int, check_crc: bool) -> Message:
    front = _LAYOUTS[buffer[position + _LAST_SYS_FLAG_AT] & _HOST_FLAGS]
    (
        size,
        magic,
        crc,
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        sys_flag,
        born_ms,
        born,
        store_ms,
        store,
        reconsume_times,
        prepared_offset,
        body_size,
    ) = front.unpack_from(buffer, position)
    end = position + size
    if magic != MAGIC_MESSAGE:
        raise RecordError(f"record at {position} has magic {magic}; expected {MAGIC_MESSAGE}")
    if size < RECORD_SIZE_MIN or end > len(buffer):
        raise RecordError(
            f"record at {position} says {size} bytes; {len(buffer) - position} are there"
        )
    body_at = position + front.size
    topic_at = body_at + body_size + 1
    if body_size < 0 or topic_at + 2 > end:
        raise RecordError(f"record at {position} has a body of {body_size} bytes in {size}")
    if buffer[topic_at - 1] > TOPIC_SIZE_MAX:
        raise RecordError(
            f"record at {position} has a topic of {buffer[topic_at - 1]} bytes; allowed: up to {TOPIC_SIZE_MAX}"
        )
    properties_at = topic_at + buffer[topic_at - 1] + 2
    (properties_size,) = _SHORT.unpack_from(buffer, properties_at - 2)
    if properties_at + properties_size != end:
        raise RecordError(
            f"record at {position} ends at {properties_at + properties_size}, not {end}"
        )
    body = bytes(buffer[body_at : topic_at - 1])
    if check_crc and body_checksum(body) != crc:
        raise RecordError(
            f"record at {position} has body checksum {body_checksum(body)}, not {crc}"
        )
    return Message(  # positional arguments: keywords take twice as long
        bytes(buffer[topic_at : properties_at - 2]).decode(),
        body,
        decode_properties(bytes(buffer[properties_at:end])),
        flag,
        sys_flag,
        queue_id,
        queue_offset,
        physical_offset,
        born_ms,
        _decode_host(born),
        store_ms,
        _decode_host(store),
        reconsume_times,
        prepared_offset,
        crc,
        size,
    )


def record_properties(record: Buffer) -> dict[str, str]:
    """The properties of one whole record; skips its body. Raises RecordError."""
    try:
        sys_flag = record[_LAST_SYS_FLAG_AT]
        at = _HEAD_SIZE + (20 if sys_flag & BORN_HOST_V6 else 8) + 8
        at += 20 if sys_flag & STORE_HOST_V6 else 8
        topic_at = at + _TAIL.size + _TAIL.unpack_from(record, at)[2]
        properties_at = topic_at + 1 + record[topic_at] + 2
        (size,) = _SHORT.unpack_from(record, properties_at - 2)
    except (struct.error, IndexError) as error:
        raise RecordError(f"record of {len(record)} bytes is malformed: {error}") from error
    if properties_at + size != len(record):
        raise RecordError(f"record of {len(record)} bytes ends at {properties_at + size}")
    return decode_properties(bytes(record[properties_at:]))


def decode_records(body: Buffer) -> list[Message]:
    """Decode records that follow one another, as in a pull answer. Raises RecordError."""
    messages = []
    position = 0
    while position < len(body):
        message = decode_record(body, position)
        messages.append(message)
        position += message.size_bytes
    return messages


def size_at(buffer: Buffer, position: int) -> int:
    """Size of the record or blank at `position`.

    Raises RecordError: neither is there, or it does not fit into the buffer.
    """
    if len(buffer) - position < 8:
        raise RecordError(f"{len(buffer) - position} bytes at {position}; a record has at least 8")
    size = int.from_bytes(buffer[position : position + 4], "big", signed=True)
    magic = int.from_bytes(buffer[position + 4 : position + 8], "big", signed=True)
    if magic not in (MAGIC_MESSAGE, MAGIC_BLANK):
        raise RecordError(f"no record at {position}: magic is {magic}")
    if not 8 <= size <= len(buffer) - position:
        raise RecordError(
            f"record at {position} says {size} bytes; {len(buffer) - position} are there"
        )
    return size


@lru_cache(maxsize=4096)  # hosts are few, and every message names two
def encode_host(address: Address) -> tuple[bytes, bool]:
    """Address bytes and port, and whether it is IPv6. Raises ValueError if the host is not an IP address."""
    packed = _packed_v4(address[0])
    if packed is not None:
        return _V4.pack(packed, address[1]), False
    return _V6.pack(ip_address(address[0]).packed, address[1]), True


def _packed_v4(host: str) -> bytes | None:
    """The four bytes of a dotted address; None if it does not look like one."""
    try:
        packed = bytes(map(int, host.split(".")))
    except ValueError:
        return None
    return packed if len(packed) == 4 else None


@lru_cache(maxsize=4096)  # as encode_host
def _decode_host(field: bytes) -> Address:
    """The opposite of encode_host."""
    if len(field) == _V6.size:
        packed, port = _V6.unpack(field)
        return str(ip_address(packed)), port
    packed, port = _V4.unpack(field)
    return ".".join(map(str, packed)), port


# --- properties ----------------------------------------------------------------------------------


def encode_properties(properties: dict[str, str]) -> bytes:
    """`name 0x01 value`, joined by 0x02, without a trailing 0x02 (as since 4.9.1).

    Raises:
        RecordError: a name or value holds a separator, which would split it, or a NUL, which recovery takes for a
        lost sector.
    """
    text = PROPERTY_END.join(map(NAME_END.join, properties.items()))
    if (
        text.count(NAME_END) != len(properties)
        or text.count(PROPERTY_END) != (len(properties) or 1) - 1
        or "\0" in text
    ):
        raise RecordError(
            f"properties {properties!r:.200} hold a control character; not allowed: 0x00, 0x01, 0x02"
        )
    return text.encode()


def _encode_text(text: str) -> bytes:
    if "\0" in text:
        raise RecordError(f"properties {text!r:.200} hold a control character; not allowed: 0x00")
    return text.encode()


def decode_properties(data: bytes | str) -> dict[str, str]:
    """Drops entries without a name or a value; of equal names the last wins.

    Raises RecordError: the bytes are not UTF-8.
    """
    try:
        text = data if isinstance(data, str) else data.decode()
    except UnicodeDecodeError as error:
        raise RecordError(f"properties are not UTF-8: {error}") from error
    properties: dict[str, str] = {}
    for entry in text.split(PROPERTY_END):
        name, _, value = entry.partition(NAME_END)
        if name and value:
            properties[name] = value
    return properties


# --- hashes and ids ------------------------------------------------------------------------------


def java_string_hash(text: str) -> int:
    """Java's String.hashCode: a signed 32-bit polynomial over UTF-16 units."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in struct.unpack(f">{len(data) // 2}H", data):
        value = (value * 31 + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def tags_code(tags: str | None) -> int:
    """The hash of the tag in a consume-queue entry; 0 without a tag (MessageExtBrokerInner.tagsString2tagsCode)."""
    return java_string_hash(tags) if tags else 0


def offset_message_id(host: str, port: int, physical_offset: int) -> str:
    """The server's message id: store host, port and commit-log offset, in upper-case hex."""
    packed, _ = encode_host((host, port))
    return (packed + _LONG.pack(physical_offset)).hex().upper()


def parse_offset_message_id(text: str) -> tuple[str, int, int]:
    """Host, port and commit-log offset. Raises ValueError for anything else."""
    if len(text) not in (32, 56):
        raise ValueError(f"message id {text!r} has {len(text)} characters; allowed: 32 or 56")
    data = bytes.fromhex(text)
    host, port = _decode_host(data[: -_LONG.size])
    return host, port, int(_LONG.unpack_from(data, len(data) - _LONG.size)[0])
