"""Routes as RocketMQ's fastjson writes them (RocketMQ: RemotingSerializable.encode, ClientRequestProcessor).

`json_dialect.dumps` writes what every tolerant peer reads. This module is for the bodies that clients take apart with
parsers of their own: integer keys without quotes below version 4.9.4, alphabetical order.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

__all__ = ["dumps_browser_compatible", "dumps_fastjson"]

_NOT_ASCII = re.compile(r"[^\x00-\x7e]")


def dumps_fastjson(value: object) -> bytes:
    """The dialect: `{0:"a"}`."""
    text = _written(value, quotes_keys=False)
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").encode()


def dumps_browser_compatible(value: object) -> bytes:
    """Standard JSON in ASCII with escaped slashes (fastjson: BrowserCompatible, QuoteFieldNames, MapSortField)."""
    text = _written(value, quotes_keys=True).replace("/", "\\/")
    return _NOT_ASCII.sub(_escaped, text).encode()


def _written(value: Any, *, quotes_keys: bool) -> str:
    if isinstance(value, dict):
        members = (
            f"{_key(key, quotes_keys)}:{_written(value[key], quotes_keys=quotes_keys)}"
            for key in sorted(value, key=_order)
        )
        return f"{{{','.join(members)}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(_written(item, quotes_keys=quotes_keys) for item in value)}]"
    return orjson.dumps(value).decode()


def _key(key: str | int, quotes_keys: bool) -> str:
    if isinstance(key, str):
        return orjson.dumps(key).decode()
    return f'"{key}"' if quotes_keys else str(key)


def _order(key: str | int) -> tuple[int, int, str]:
    """Numbers by value, then text."""
    return (0, key, "") if isinstance(key, int) else (1, 0, key)


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[i]:02X}{units[i + 1]:02X}" for i in range(0, len(units), 2))
