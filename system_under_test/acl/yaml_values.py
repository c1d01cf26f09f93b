"""Reads YAML scalars as RocketMQ does (snakeyaml, and fastjson's TypeUtils.castToString and castToBoolean).

`secretKey: 12345678` is a number in YAML but text for RocketMQ, whose own plain_acl.yml and tools.yml have it.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import yaml

_WHOLE_FROM, _WHOLE_TO = 1e-3, 1e7  # Java writes other doubles with an exponent
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TRUE = ("true", "1", "Y", "T")
_FALSE = ("false", "0", "N", "F", "null", "")


class _Loader(yaml.SafeLoader):
    """snakeyaml takes `12e3` for a number, too: an exponent needs neither a point nor a sign."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9_]+)[eE][-+]?[0-9]+$"),
    list("-+.0123456789"),
)


def load_yaml(text: str) -> object:
    """The document. Raises ValueError, with one sentence, if it is not YAML."""
    try:
        document: object = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ValueError(f"no YAML: {error}") from None
    return document


def text_of(value: object) -> str | None:
    """Text, a number, a boolean or a date (ms since 1970) as text; None for anything else, such as a list."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _double_text(value)
    if isinstance(value, date):
        return _date_text(value)
    return str(value) if isinstance(value, str | int) else None


def truth_of(value: object) -> bool | None:
    """A boolean, or a number or word that stands for one; an empty value is False. None for anything else."""
    if value is None or isinstance(value, bool):
        return bool(value)
    if isinstance(value, int):
        return value == 1
    if isinstance(value, float):
        return 1 <= value < 2
    words = (value, value.lower()) if isinstance(value, str) else ()
    return (
        True
        if any(w in _TRUE for w in words)
        else False
        if any(w in _FALSE for w in words)
        else None
    )


def _double_text(value: float) -> str | None:
    """Java's BigDecimal of its Double.toString; None for NaN and infinity."""
    if not math.isfinite(value):
        return None
    if value == 0 or _WHOLE_FROM <= abs(value) < _WHOLE_TO:
        return repr(value)
    shortest = Decimal(repr(value)).normalize()
    sign, digits, _ = shortest.as_tuple()
    fraction = "".join(map(str, digits[1:])) or "0"
    return str(Decimal(f"{'-' * sign}{digits[0]}.{fraction}E{shortest.adjusted()}"))


def _date_text(value: date) -> str:
    moment = value if isinstance(value, datetime) else datetime.combine(value, time())
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    return str(since // timedelta(milliseconds=1))
