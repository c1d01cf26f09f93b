"""Rewrites broker addresses inside messages: the store host of a record, and the offset message id.

Clients connect to both: `viewMessage` to the address in an id, the C++ client to the store host when it sends a message
back.
"""

from __future__ import annotations

from collections.abc import Callable

from staticfire.system_under_test.protocol.message import BORN_HOST_V6, MAGIC_MESSAGE, STORE_HOST_V6

StoreHost = Callable[[bytes], bytes | None]

MAGIC_MESSAGE_LONG_TOPIC = -626843477  # 5.x, MessageDecoder.MESSAGE_MAGIC_CODE_V2
_MAGICS = tuple(
    magic.to_bytes(4, "big", signed=True) for magic in (MAGIC_MESSAGE, MAGIC_MESSAGE_LONG_TOPIC)
)
_HEAD_SIZE = 8  # size and magic
_SYS_FLAG_AT = 36
_BORN_HOST_AT = 48
_STORE_TIMESTAMP_SIZE = 8
_HOST_SIZES = (8, 20)  # IPv4 and IPv6, each with 4 bytes of port
_ID_SIZES = {32: 8, 56: 20}  # digits of an id -> bytes of the host at its beginning


def rewrite_records(body: bytes, store_host: StoreHost) -> bytes | None:
    """Return the records of an answer with other store hosts; None if nothing changes.

    Only a body that consists of records from its first to its last byte is rewritten.
    """
    ranges = _store_host_places(body)
    changed: bytearray | None = None
    for start, end in ranges:
        replacement = store_host(body[start:end])
        if replacement is not None:
            changed = bytearray(body) if changed is None else changed
            changed[start:end] = replacement
    return None if changed is None else bytes(changed)


def _store_host_places(body: bytes) -> list[tuple[int, int]]:
    """Return the (begin, end) of each store host in the body; none if the body does not consist of records."""
    ranges: list[tuple[int, int]] = []
    position, end = 0, len(body)
    while position < end:
        size = int.from_bytes(body[position : position + 4], "big")
        if body[position + 4 : position + _HEAD_SIZE] not in _MAGICS:
            return []
        sys_flag = int.from_bytes(body[position + _SYS_FLAG_AT : position + _SYS_FLAG_AT + 4])
        start = position + _BORN_HOST_AT + _host_size(sys_flag & BORN_HOST_V6)
        start += _STORE_TIMESTAMP_SIZE
        host_end = start + _host_size(sys_flag & STORE_HOST_V6)
        position += size
        if not host_end <= position <= end:
            return []
        ranges.append((start, host_end))
    return ranges


def _host_size(is_v6: int) -> int:
    return _HOST_SIZES[bool(is_v6)]


def rewrite_message_ids(ids: str, store_host: StoreHost) -> str:
    """Rewrite offset message ids, one or several separated by commas. Other texts stay unchanged."""
    return ",".join(_rewrite_id(one, store_host) for one in ids.split(","))


def _rewrite_id(text: str, store_host: StoreHost) -> str:
    size = _ID_SIZES.get(len(text))
    if size is None:
        return text
    try:
        replacement = store_host(bytes.fromhex(text[: 2 * size]))
    except ValueError:
        return text
    return text if replacement is None else replacement.hex().upper() + text[2 * size :]
