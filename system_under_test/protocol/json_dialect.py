"""The JSON of bodies as Java peers write it: fastjson's dialect in, standard JSON out.

Three things are not JSON: unquoted integer keys `{0:"a"}`, objects as keys `{{"queueId":1}:5}`, and references to
values met before `{"$ref":"$.path[0]"}`. An integer key becomes its text, an object key the text of its JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import orjson

__all__ = ["BodyError", "dumps", "loads"]

DEPTH_MAX: Final = 100
# Text size times references: shared values must not explode when read.
EXPANSION_MAX: Final = 1 << 26

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_INTEGER_KEY = re.compile(r"-?\d+")
_WORD = re.compile(r"true|false|null")
_REFERENCE_KEY = "$ref"
_REFERENCE_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


class BodyError(ValueError):
    """A body that is no JSON, or not of the shape that its request needs."""


def dumps(value: object) -> bytes:
    """Standard JSON; integer keys are quoted, which every peer accepts."""
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)


def loads(text: bytes | str) -> Any:
    """Read standard JSON or the dialect.

    Raises:
        BodyError: it is neither.
    """
    marker: Any = _REFERENCE_KEY if isinstance(text, str) else _REFERENCE_KEY.encode()
    references = text.count(marker)
    if references == 0:
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            return _Parser(_decoded(text)).document()
    if references * len(text) > EXPANSION_MAX:
        raise BodyError(f"body of {len(text)} bytes has {references} references: too many")
    document = _Parser(_decoded(text)).document()
    return _resolved(document, document)


def _decoded(text: bytes | str) -> str:
    try:
        return text if isinstance(text, str) else text.decode()
    except UnicodeDecodeError as error:
        raise BodyError(f"body is not UTF-8: {error}") from None


class _Parser:
    """Recursive descent over one text; `_position` is where the next token begins."""

    __slots__ = ("_depth", "_position", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0

    def document(self) -> Any:
        value = self._value()
        if self._peek():
            raise self._unexpected("the end")
        return value

    def _value(self) -> Any:
        match self._peek():
            case "{":
                return self._nested(self._object)
            case "[":
                return self._nested(self._array)
            case '"':
                return self._token(_STRING, "text")
            case "t" | "f" | "n":
                return self._token(_WORD, "true, false or null")
            case _:
                return self._token(_NUMBER, "a value")

    def _nested(self, read: Callable[[], Any]) -> Any:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise BodyError(f"body is nested deeper than {DEPTH_MAX}")
        self._position += 1
        value = read()
        self._depth -= 1
        return value

    def _object(self) -> dict[str, Any]:
        members: dict[str, Any] = {}
        if self._skip("}"):
            return members
        while True:
            name = self._name()
            self._expect(":")
            members[name] = self._value()
            if self._skip("}"):
                return members
            self._expect(",")

    def _array(self) -> list[Any]:
        items: list[Any] = []
        if self._skip("]"):
            return items
        while True:
            items.append(self._value())
            if self._skip("]"):
                return items
            self._expect(",")

    def _name(self) -> str:
        match self._peek():
            case '"':
                return str(self._token(_STRING, "text"))
            case "{":
                return orjson.dumps(self._value(), option=orjson.OPT_SORT_KEYS).decode()
            case _:
                return str(self._token(_INTEGER_KEY, "a key"))

    def _token(self, pattern: re.Pattern[str], wanted: str) -> Any:
        found = pattern.match(self._text, self._position)
        if found is None:
            raise self._unexpected(wanted)
        try:
            value = orjson.loads(found.group())
        except orjson.JSONDecodeError:
            raise self._unexpected(wanted) from None
        self._position = found.end()
        return value

    def _peek(self) -> str:
        """The next character that is no space; "" at the end."""
        found = _SPACE.match(self._text, self._position)
        if found is not None:
            self._position = found.end()
        return self._text[self._position : self._position + 1]

    def _skip(self, character: str) -> bool:
        if self._peek() != character:
            return False
        self._position += 1
        return True

    def _expect(self, character: str) -> None:
        if not self._skip(character):
            raise self._unexpected(repr(character))

    def _unexpected(self, wanted: str) -> BodyError:
        found = self._text[self._position : self._position + 20]
        return BodyError(f"body is not JSON: {wanted} wanted at {self._position}, found {found!r}")


def _resolved(value: Any, root: Any) -> Any:
    """`value` with every reference replaced by what it stands for."""
    if isinstance(value, list):
        return [_resolved(item, root) for item in value]
    if not isinstance(value, dict):
        return value
    path = value.get(_REFERENCE_KEY)
    if len(value) == 1 and isinstance(path, str):
        return _target(path, root)
    return {name: _resolved(member, root) for name, member in value.items()}


def _target(path: str, root: Any) -> Any:
    """The value at a path such as `$.consumerDataSet[0].subscriptionDataSet[1]`; it holds no reference itself."""
    position, target = 1, root
    if not path.startswith("$"):
        raise BodyError(f"reference {path!r:.80} is not supported, allowed are paths from $")
    while position < len(path):
        step = _REFERENCE_STEP.match(path, position)
        if step is None:
            raise BodyError(f"reference {path!r:.80} is malformed at {position}")
        target = _child(target, step, path)
        position = step.end()
    if _has_reference(target):
        raise BodyError(f"reference {path!r:.80} leads to a reference")
    return target


def _child(parent: Any, step: re.Match[str], path: str) -> Any:
    name, index = step.groups()
    if isinstance(parent, dict) and name in parent:
        return parent[name]
    if (
        isinstance(parent, list)
        and index is not None
        and len(index) < 10
        and int(index) < len(parent)
    ):
        return parent[int(index)]
    raise BodyError(f"reference {path!r:.80} leads nowhere")


def _has_reference(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_has_reference, value))
    if not isinstance(value, dict):
        return False
    return _REFERENCE_KEY in value or any(map(_has_reference, value.values()))
