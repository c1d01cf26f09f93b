"""Writes JSON exactly as RocketMQ's fastjson does, for peers that need that (RocketMQ: RemotingSerializable.encode).

`json_dialect.dumps` writes what every tolerant peer reads. This module is for bodies that old clients read with parsers
of their own: integer keys without quotes, objects as keys, properties in alphabetical order.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

_NOT_ASCII = re.compile(r"[^\x00-\x7e]")


def dumps_fastjson(value: object) -> bytes:
    """The dialect: `{0:"a"}`, and `{{"queueId":1}:5}` for keys with a `to_json()`."""
    text = _written(value, quotes_keys=False)
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").encode()


def dumps_browser_compatible(value: object) -> bytes:
    """Standard JSON in ASCII with escaped slashes (fastjson: BrowserCompatible, QuoteFieldNames, MapSortField)."""
    text = _written(value, quotes_keys=True).replace("/", "\\/")
    return _NOT_ASCII.sub(_escaped, text).encode()


def _written(value: object, *, quotes_keys: bool) -> str:
    try:  # nearly all values have only text keys: then the result is standard JSON
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except orjson.JSONEncodeError:
        return _written_apart(value, quotes_keys=quotes_keys)


def _written_apart(value: object, *, quotes_keys: bool) -> str:
    """Write member by member. Raises JSONEncodeError for a value that JSON cannot express."""
    if isinstance(value, dict):
        members = (
            f"{_key(key, quotes_keys)}:{_written(value[key], quotes_keys=quotes_keys)}"
            for key in sorted(value, key=_order)
        )
        return f"{{{','.join(members)}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(_written(item, quotes_keys=quotes_keys) for item in value)}]"
    return orjson.dumps(value).decode()


def _key(key: Any, quotes_keys: bool) -> str:
    if isinstance(key, str):
        return orjson.dumps(key).decode()
    if isinstance(key, int):
        return f'"{key}"' if quotes_keys else str(key)
    written = _written(key.to_json(), quotes_keys=quotes_keys)
    return orjson.dumps(written).decode() if quotes_keys else written


def _order(key: Any) -> tuple[int, Any]:
    """Sort key: numbers by value, then text, then objects by their content."""
    if isinstance(key, int):
        return 0, key
    return (1, key) if isinstance(key, str) else (2, tuple(key))


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[i]:02X}{units[i + 1]:02X}" for i in range(0, len(units), 2))
