"""JSON bodies: dataclasses to documents and back, as a Java bean would be.

A body class only declares its fields; their annotations give the types: str, Int32, Int64, bool, names of a Java enum
(`Annotated[str, (...)]`), float, list, dict, other bodies, each possibly `| None`. A field without a default is
required. A dict whose keys are objects (RocketMQ: `Map<MessageQueue, ...>`) is written by `encode` as Java needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Self, Union, get_args, get_origin, get_type_hints

from staticfire.system_under_test.protocol.header_fields import wire_name
from staticfire.system_under_test.protocol.json_dialect import BodyError, loads, loads_request
from staticfire.system_under_test.protocol.json_writer import dumps_fastjson

Read = Callable[[Any], Any]

_SCALARS = frozenset((str, int, bool, float))


class JsonBody:
    """Base of the bodies."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """The document, with integer keys and objects as keys where Java has them; None is left out."""
        body: Any = type(self)
        document: dict[str, object] = {}
        for name, wires, _, _ in _body_fields(body):
            value = getattr(self, name)
            if value is not None:
                document[wires[0]] = value if type(value) in _SCALARS else _plain(value)
        return document

    def encode(self) -> bytes:
        """The bytes of the body, as Java writes them."""
        return dumps_fastjson(self.to_json())

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        """Read the bytes of a body. Raises BodyError."""
        return cls.from_json(loads(body))

    @classmethod
    def from_request(cls, body: bytes) -> Self:
        """Like from_bytes, for the body of an untrusted peer: see `loads_request`. Raises BodyError."""
        return cls.from_json(loads_request(body))

    @classmethod
    def from_json(cls, document: object) -> Self:
        """Read a document; ignores unknown properties; null counts as missing.

        Raises BodyError: it is not an object, a required property is missing, or a value is malformed.
        """
        if not isinstance(document, dict):
            raise BodyError(f"{cls.__name__}: {document!r:.80} is not an object")
        body: Any = cls
        return cls(**_read_fields(cls.__name__, _body_fields(body), document))


class _BodyField(NamedTuple):
    name: str  # in Python
    wires: tuple[str, ...]  # the first is written, all are understood
    read: Read
    required: bool


@cache
def _body_fields(body: Any) -> tuple[_BodyField, ...]:
    hints = get_type_hints(body, include_extras=True)
    return tuple(
        _BodyField(
            field.name,
            (wire_name(field), *field.metadata.get("also", ())),
            _reader(hints[field.name]),
            field.default is MISSING and field.default_factory is MISSING,
        )
        for field in fields(body)
    )


def _read_fields(
    body: str, body_fields: tuple[_BodyField, ...], document: dict[str, object]
) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, wires, read, required in body_fields:
        value = document.get(wires[0])
        if value is None and len(wires) > 1:
            value = next((document[wire] for wire in wires if wire in document), None)
        if value is not None:
            try:
                values[name] = read(value)
            except ValueError as error:
                raise BodyError(f"{body}.{wires[0]}: {error}") from None
        elif required:
            raise BodyError(f"{body}: {wires[0]} is missing")
    return values


def _plain(value: object) -> object:
    if type(value) in _SCALARS:
        return value
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, dict):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _reader(hint: Any) -> Read:
    """The function that reads a value of this type; it raises ValueError."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        (option,) = (argument for argument in arguments if argument is not NoneType)
        return _reader(option)
    if origin is Annotated:
        detail = hint.__metadata__[0]
        return partial(_read_integer if arguments[0] is int else _read_name, detail)
    if origin is list:
        return partial(_read_list, _reader(arguments[0]))
    if origin is dict:
        return partial(_read_dict, _key_reader(arguments[0]), _reader(arguments[1]))
    if hint is str:
        return _read_text
    if hint is bool:
        return _read_bool
    if hint is float:
        return _read_float
    read: Read = hint.from_json
    return read


def _key_reader(hint: object) -> Read:
    """The function that reads a key: text, or for an object key its JSON."""
    read = _reader(hint)
    return partial(_read_object_key, read) if hasattr(hint, "from_json") else read


def _read_object_key(read: Read, value: str) -> object:
    return read(loads_request(value))


def _read_integer(bits: int, value: object) -> int:
    """A number, or its text: keys of maps are text, and so are some numbers of the C++ client."""
    number = int(value) if type(value) is str else value
    if type(number) is not int or not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"{value!r:.80} is not an integer of {bits} bits")
    return number


def _read_name(names: tuple[str, ...], value: object) -> str:
    """The name of an enum constant; the C++ client sends its position."""
    if type(value) is int and 0 <= value < len(names):
        return names[value]
    if value in names:
        return str(value)
    raise ValueError(f"{value!r:.80} is unknown, allowed {', '.join(names)}")


def _read_text(value: object) -> str:
    if type(value) is not str:
        raise ValueError(f"{value!r:.80} is not text")
    return value


def _read_bool(value: object) -> bool:
    if type(value) is not bool:
        raise ValueError(f"{value!r:.80} is neither true nor false")
    return value


def _read_float(value: Any) -> float:
    if type(value) not in (int, float):
        raise ValueError(f"{value!r:.80} is not a number")
    return float(value)


def _read_list(read: Read, value: object) -> list[object]:
    if type(value) is not list:
        raise ValueError(f"{value!r:.80} is not an array")
    return [read(item) for item in value]


def _read_dict(read_key: Read, read: Read, value: object) -> dict[object, object]:
    if type(value) is not dict:
        raise ValueError(f"{value!r:.80} is not an object")
    return {read_key(key): read(member) for key, member in value.items()}
