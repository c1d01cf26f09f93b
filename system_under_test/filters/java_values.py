"""Values of SQL92 expressions with Java's rules: how text becomes a number, and which of two values is greater.

A value is a bool, an int (Java's Integer), a `Long`, a float (Double), a str or None (unknown).
"""

from __future__ import annotations

import math
import re

INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1
LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1

_WHOLE = re.compile(r"[+-]?\d+")  # digits of any script, as Java's Character.digit
_DOUBLE = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)"
)
_HEX_DOUBLE = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?"
)
# What Java's String.trim removes: all characters up to and including the space.
_BLANKS = "".join(map(chr, range(33)))
# characters of a number: Python refuses to parse more, and no Java number is that long
_TEXT_MAX = 4300


class EvaluationError(ValueError):
    """An expression has no value for these properties, such as a comparison of text with a number."""


class Long(int):
    """Java's Long: text that it is compared with is parsed as a Long, too."""

    __slots__ = ()


Value = bool | int | float | str | None
Known = bool | int | float | str


def parse_int(text: str) -> int:
    """Integer.valueOf. Raises EvaluationError."""
    return _parse_whole(text, INT_MIN, INT_MAX)


def parse_long(text: str) -> Long:
    """Long.valueOf. Raises EvaluationError."""
    return Long(_parse_whole(text, LONG_MIN, LONG_MAX))


def _parse_whole(text: str, low: int, high: int) -> int:
    if len(text) <= _TEXT_MAX and _WHOLE.fullmatch(text):
        value = int(text)
        if low <= value <= high:
            return value
    raise EvaluationError(f"{text!r:.80} is no whole number from {low} to {high}")


def parse_double(text: str) -> float:
    """Double.valueOf. Raises EvaluationError."""
    stripped = text.strip(_BLANKS)
    if _DOUBLE.fullmatch(stripped):
        if stripped[-1] in "fFdD":
            stripped = stripped[:-1]
        return float(stripped)
    hexadecimal = _HEX_DOUBLE.fullmatch(stripped)
    if hexadecimal:
        try:
            return float.fromhex(hexadecimal[1])
        except OverflowError:
            return -math.inf if stripped.startswith("-") else math.inf
    raise EvaluationError(f"{text!r:.80} is no number")


def parse_bool(text: str) -> bool:
    """Boolean.valueOf: anything but "true" is false."""
    return text.lower() == "true"


def compare(left: Known, right: Known) -> int:
    """Below 0, 0 or above 0, after converting text to the type of the other side; -1 for types that cannot be compared.

    Raises EvaluationError if the text cannot be converted, and for a boolean on the left of text, since RocketMQ
    then converts the wrong side (ComparisonExpression.__compare).
    """
    if type(left) is not type(right):
        converted = _convert(left, right)
        if converted is None:
            return -1
        left, right = converted
    if isinstance(left, float):
        assert isinstance(right, float)
        return _compare_doubles(left, right)
    return (left > right) - (left < right)  # type: ignore[operator]  # they are of one kind now


def _convert(left: Known, right: Known) -> tuple[Known, Known] | None:
    """Both values as one type; None if they have none in common."""
    if isinstance(left, bool):
        if isinstance(right, str):
            raise EvaluationError(f"{left} on the left of {right!r:.80}")
        return None
    if isinstance(left, str):
        return _parse_like(right, left), right
    if isinstance(right, bool):
        return None
    if isinstance(right, str):
        return left, _parse_like(left, right)
    if isinstance(left, float) or isinstance(right, float):
        return float(left), float(right)
    return int(left), int(right)


def _parse_like(model: Known, text: str) -> Known:
    """The text as a value of the model's type. Raises EvaluationError."""
    if isinstance(model, bool):
        return parse_bool(text)
    if isinstance(model, Long):
        return parse_long(text)
    if isinstance(model, int):
        return parse_int(text)
    return parse_double(text)


def _compare_doubles(left: float, right: float) -> int:
    """Double.compareTo: -0.0 is below 0.0, and NaN is above everything and equal to itself."""
    if left < right:
        return -1
    if left > right:
        return 1
    return _rank(left) - _rank(right)


def _rank(value: float) -> int:
    if math.isnan(value):
        return 2
    return 0 if value == 0 and math.copysign(1, value) < 0 else 1
