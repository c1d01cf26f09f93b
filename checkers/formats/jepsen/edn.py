"""A fast reader and writer of EDN (the notation of Clojure), as far as histories use it. Parsing does not recurse.

The library for EDN (edn_format) takes 0.4 ms for an op of a history, and minutes for a million of them. Keywords become
Keyword, symbols and characters str, lists and sets lists, nil None. Tags are dropped.
"""

from __future__ import annotations

import re

import orjson


class EdnError(ValueError):
    """Text that is no EDN; the message says what is wrong."""


class UnfinishedEdn(EdnError):
    """Text that ends within a value."""


class Keyword(str):
    """`:name`, without its colon."""

    __slots__ = ()


class _Tag(str):
    __slots__ = ()


_TOKEN = re.compile(
    r'(?:[\s,]+|;[^\n]*)*("(?:[^"\\]|\\.)*"|#\{|#_|[\[\](){}]|\\.[^\s,\[\](){}"]*|[^\s,\[\](){}";]+|$)',
    re.DOTALL,
)
_INTEGER = re.compile(r"[+-]?\d+N?")
_FLOAT = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?M?")
_CLOSING = {"]": "[", ")": "(", "}": "{"}
_SYMBOLS: dict[str, object] = {"nil": None, "true": True, "false": False}
_DISCARD = object()


def parse_all(text: str) -> list[object]:
    """Return all values of `text`, one after the other. Raises EdnError."""
    stack: list[tuple[str, list[object]]] = [("", [])]
    at, end = 0, len(text)
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unfinished_or_wrong(text, at)
        token, at = match[1], match.end()
        if not token:
            break
        first = token[0]
        if first in "[({" or token == "#{":
            stack.append((token, []))
        elif first in "])}":
            opening, values = stack.pop()
            if not stack or opening.lstrip("#") != _CLOSING[token]:
                raise EdnError(f"{token!r} closes nothing")
            _add(stack[-1][1], _collection(opening, values))
        elif token == "#_":
            stack[-1][1].append(_DISCARD)
        elif first == "#":
            stack[-1][1].append(_Tag(token[1:]))
        else:
            _add(stack[-1][1], _atom(token))
    if len(stack) > 1:
        raise UnfinishedEdn(f"{stack[-1][0]!r} is never closed")
    if stack[0][1] and (stack[0][1][-1] is _DISCARD or type(stack[0][1][-1]) is _Tag):
        raise UnfinishedEdn("there is no value behind a tag")
    return stack[0][1]


def _unfinished_or_wrong(text: str, at: int) -> EdnError:
    rest = text[at:].lstrip(" ,\t\r\n")
    if rest.startswith('"'):
        return UnfinishedEdn("a string is never closed")
    return EdnError(f"{rest[:20]!r} is no EDN")


def _add(values: list[object], value: object) -> None:
    """Append a value, unless it is discarded; tags before it are dropped."""
    while values and type(values[-1]) is _Tag:
        values.pop()
    if values and values[-1] is _DISCARD:
        values.pop()
    else:
        values.append(value)


def _collection(opening: str, values: list[object]) -> object:
    if values and (values[-1] is _DISCARD or type(values[-1]) is _Tag):
        raise EdnError("there is no value behind a tag")
    if opening != "{":
        return values
    if len(values) % 2:
        raise EdnError("a map has a key without a value")
    try:
        return dict(zip(map(_key, values[::2]), values[1::2], strict=True))
    except TypeError as error:
        raise EdnError("a map has a key that is a map") from error


def _key(value: object) -> object:
    return tuple(map(_key, value)) if type(value) is list else value


def _atom(token: str) -> object:
    first = token[0]
    if first == ":":
        if len(token) == 1:
            raise EdnError("':' is no keyword")
        return Keyword(token[1:])
    if first == '"':
        return _string(token)
    if first == "\\":
        return token[1:]
    if _INTEGER.fullmatch(token):
        return _integer(token.rstrip("N"))
    if first in "+-0123456789." and _FLOAT.fullmatch(token):
        return float(token.rstrip("M"))
    return _SYMBOLS.get(token, token)


def _integer(digits: str) -> int:
    if len(digits) > 40:
        raise EdnError(f"the integer {digits[:20]}... is too long")
    return int(digits)


def _string(token: str) -> str:
    if "\\" not in token:
        return token[1:-1]
    try:
        text = orjson.loads(token.replace("\n", "\\n"))
    except orjson.JSONDecodeError as error:
        raise EdnError(f"{token[:40]} is no string: {error.msg}") from error
    assert isinstance(text, str)
    return text


def to_edn(value: object) -> str:
    """Write a value in the form that parse_all reads. Raises TypeError for another value."""
    if value is None:
        return "nil"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, Keyword):
        return f":{value}"
    if isinstance(value, str):
        return orjson.dumps(value).decode()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{to_edn(k)} {to_edn(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + " ".join(map(to_edn, value)) + "]"
    raise TypeError(f"{type(value).__name__} cannot be written as EDN")
