"""Custom headers: dataclasses to ext fields and back (RocketMQ: CommandCustomHeader).

A header class is a dataclass with slots and only declares its fields. Their annotations say how text is read (str,
Int32, Int64, bool, each possibly `| None`); a field without a default is required.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import (
    Annotated,
    Any,
    NamedTuple,
    Self,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

Int32: TypeAlias = Annotated[int, 32]  # Java's int
Int64: TypeAlias = Annotated[int, 64]  # Java's long

Parse = Callable[[str], object]
ReadHeader = TypeVar("ReadHeader", bound="Header")

_SMALL_COUNT = 256


class HeaderError(ValueError):
    """A field of a custom header is missing or malformed."""


class Header:
    """Base of the custom headers."""

    __slots__ = ()

    def to_ext(self) -> dict[str, str]:
        """Fields as text under their wire names; None is left out."""
        header: object = type(self)
        return _write(self, _header_fields(header).by_name)

    @classmethod
    def from_ext(cls, ext: Mapping[str, str]) -> Self:
        """Read a header; fields that it does not know are ignored.

        Raises HeaderError: a required field is missing, or a number is malformed or out of range.
        """
        header: object = cls
        return _read(cls, _header_fields(header).by_name, ext)


class ShortHeader(Header):
    """A header that has a second form with names of one letter, in the order of its fields."""

    __slots__ = ()

    def to_ext_v2(self) -> dict[str, str]:
        header: object = type(self)
        return _write(self, _header_fields(header).by_letter)

    @classmethod
    def from_ext_v2(cls, ext: Mapping[str, str]) -> Self:
        """Like from_ext. Raises HeaderError."""
        return cls._from_letters(ext)

    @classmethod
    def _from_letters(cls, ext: Mapping[str, str]) -> Self:
        header: object = cls
        return _read(cls, _header_fields(header).by_letter, ext)


class _WireField(NamedTuple):
    name: str  # in Python
    wire: str
    parse: Parse | None  # None: the text itself
    default: Any  # MISSING: it is required
    put: Callable[[Any, Any], None]  # sets the field of a header that is being read


class _HeaderFields(NamedTuple):
    by_name: tuple[_WireField, ...]
    by_letter: tuple[_WireField, ...]


@cache
def _header_fields(header: Any) -> _HeaderFields:
    """Raises TypeError for a class that `_read`, which bypasses the constructor, would read wrongly."""
    made = [field.name for field in fields(header) if field.default_factory is not MISSING]
    if made or hasattr(header, "__post_init__"):
        raise TypeError(
            f"{header.__name__} has __post_init__ or a default_factory {made}; allowed: neither"
        )
    hints = get_type_hints(header, include_extras=True)
    by_name = tuple(
        _WireField(
            field.name,
            wire_name(field),
            _parser(hints[field.name]),
            field.default,
            getattr(header, field.name).__set__,
        )
        for field in fields(header)
    )
    by_letter = tuple(
        field._replace(wire=chr(ord("a") + index)) for index, field in enumerate(by_name)
    )
    return _HeaderFields(by_name, by_letter)


def wire_name(field: Field[object]) -> str:
    """The field's name in camelCase, unless its metadata has another under "wire"."""
    first, *others = field.name.split("_")
    return str(field.metadata.get("wire", first + "".join(map(str.capitalize, others))))


def _parser(hint: Any) -> Parse | None:
    if get_origin(hint) is not Annotated:
        options = [option for option in get_args(hint) if option is not type(None)]
        if options:
            return _parser(options[0])
        return {str: None, bool: BOOLEANS.__getitem__}[hint]
    (bits,) = hint.__metadata__
    return _PARSE_INT[bits]


class _Integers(dict[str, int]):
    """Parses text to an integer of `bits` bits. Most numbers in headers are small and only need a look-up."""

    def __init__(self, bits: int) -> None:
        super().__init__({str(value): value for value in range(_SMALL_COUNT)})
        self._bits = bits
        self._limit = 1 << bits - 1

    def __missing__(self, text: str) -> int:
        value = int(text)
        if not -self._limit <= value < self._limit:
            raise ValueError(f"does not fit into {self._bits} bits")
        return value


class _Booleans(dict[str, bool]):
    """Java's Boolean.parseBoolean: the "1" of the C++ client is false."""

    def __init__(self) -> None:
        super().__init__({"true": True, "false": False})

    def __missing__(self, text: str) -> bool:
        return text.lower() == "true"


INT32S = _Integers(32)
INT64S = _Integers(64)
BOOLEANS = _Booleans()
_PARSE_INT: dict[int, Parse] = {32: INT32S.__getitem__, 64: INT64S.__getitem__}


def _read(
    header_type: type[ReadHeader], wire_fields: tuple[_WireField, ...], ext: Mapping[str, str]
) -> ReadHeader:
    """Set the slots directly: the constructor of a frozen dataclass takes longer than all the rest."""
    header = object.__new__(header_type)
    get = ext.get
    for _, wire, parse, default, put in wire_fields:
        text = get(wire)
        if text is None:
            if default is MISSING:
                raise HeaderError(f"{header_type.__name__}: field {wire} is missing")
            put(header, default)
        elif parse is None:
            put(header, text)
        else:
            try:
                put(header, parse(text))
            except ValueError as error:
                raise HeaderError(
                    f"{header_type.__name__}: field {wire} is {text[:80]!r}: {error}"[:400]
                ) from None
    return header


def _write(header: Header, wire_fields: tuple[_WireField, ...]) -> dict[str, str]:
    ext: dict[str, str] = {}
    for name, wire, parse, _, _ in wire_fields:
        value = getattr(header, name)
        if value is None:
            continue
        if parse is None:
            ext[wire] = value
        elif value is True:
            ext[wire] = "true"
        elif value is False:
            ext[wire] = "false"
        else:
            ext[wire] = str(value)
    return ext
