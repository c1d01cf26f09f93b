"""Campaign files: a TOML table `[campaign]`, whole or in part; and the campaigns that have a name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from staticfire.faults.errors import FaultError
from staticfire.harness.campaign.campaign import (
    FORMER_NAMES,
    PROPERTY_TABLES,
    SEED_MAX,
    Campaign,
    CampaignError,
    OneOf,
    Properties,
    with_current_names,
)
from staticfire.harness.campaign.ops import OpError, read_ops
from staticfire.harness.campaign.plan import read_plan
from staticfire.harness.truncated_repr import truncated_repr

T = TypeVar("T")
CHOICES = "choices"
_TUPLES = (
    "followers",
    "payload_bytes",
    "batch_messages",
    "idle",
    "latency_ms",
    "faults",
    "policies",
    "brokers",
    "consumer_topics",
    "forwarding",
    "expressions",
)
_PAIRS = ("tuple[int, int]", "tuple[float, float]")


def read_options(text: str, source: str) -> dict[str, Any]:
    """The options of a campaign file: a TOML table `[campaign]`, whole or in part.

    Raises CampaignError with `source` in the text.
    """
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also for numbers too long, lists too deep
        raise CampaignError(f"{source} is not valid TOML: {error}") from error
    table = document.pop("campaign", None)
    if not isinstance(table, dict):
        raise CampaignError(f"{source} has no [campaign] table")
    if document:
        found = truncated_repr(min(document))
        raise CampaignError(f"{source} has an entry {found} beside [campaign]; allowed: none")
    return typed_options(table, source)


def typed_options(table: Mapping[str, object], source: str) -> dict[str, object]:
    """The options of a table, checked and with the types of Campaign.

    The table `choices` holds lists of values, of which the seed picks one: they become `OneOf`.
    Raises CampaignError with `source` in the text.
    """
    fixed = {
        given: _typed(given, value, source) for given, value in table.items() if given != CHOICES
    }
    return {**_choices(table.get(CHOICES, {}), source), **_current(fixed, source)}


def _choices(table: object, source: str) -> dict[str, OneOf]:
    if not isinstance(table, dict):
        raise CampaignError(f"{source}: {CHOICES} is {truncated_repr(table)}; allowed: a table")
    if "system" in table:
        raise CampaignError(f"{source}: {CHOICES} hold system; allowed: one system for all seeds")
    _current(table, source)
    for given, values in table.items():
        if not isinstance(values, list) or not values:
            raise CampaignError(
                f"{source}: {CHOICES} of {given} are {truncated_repr(values)}; allowed: a list of values"
            )
    choices = {
        given: OneOf(tuple(_typed(given, value, source) for value in values))
        for given, values in table.items()
    }
    return _current(choices, source)


def _current(table: Mapping[str, T], source: str) -> dict[str, T]:
    """Return the table with current names. Raises CampaignError with `source` in the text."""
    try:
        return with_current_names(table)
    except CampaignError as error:
        raise CampaignError(f"{source}: {error}") from error


def _typed(given: str, value: object, source: str) -> object:
    """Return the value of an option, with its type. Raises CampaignError, which names the option as the file does."""
    name = FORMER_NAMES.get(given, given)
    if name == "plan":
        try:
            return read_plan(value)
        except (FaultError, CampaignError) as error:
            raise CampaignError(f"{source}: {error}") from error
    if name == "ops":
        try:
            return read_ops(value)
        except OpError as error:
            raise CampaignError(f"{source}: {error}") from error
    if name in PROPERTY_TABLES:
        return _properties(given, value, source)
    kinds = {field.name: str(field.type) for field in fields(Campaign)}
    if name not in kinds:
        raise CampaignError(
            f"{source} has an unknown option {truncated_repr(given)}; there are: {', '.join(kinds)}"
        )
    if name in _TUPLES:
        return _list(given, kinds[name], value, source)
    return _scalar(given, kinds[name], value, source)


def _properties(name: str, value: object, source: str) -> Properties:
    """Return a table of properties as texts: numbers and booleans are written as in a `.properties` file."""
    if not isinstance(value, dict):
        raise CampaignError(f"{source}: {name} is {truncated_repr(value)}; allowed: a table")
    for item in value.values():
        if not isinstance(item, (str, int, float)):
            raise CampaignError(
                f"{source}: {name} holds {truncated_repr(item)}; allowed: text, numbers, true and false"
            )
    return tuple(sorted((key, _property_text(item)) for key, item in value.items()))


def _property_text(item: str | float) -> str:
    return str(item).lower() if isinstance(item, bool) else str(item)


def _list(name: str, kind: str, value: object, source: str) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise CampaignError(f"{source}: {name} is {truncated_repr(value)}; allowed: a list")
    if kind in _PAIRS and len(value) != 2:
        raise CampaignError(f"{source}: {name} is {truncated_repr(value)}; allowed: two numbers")
    item_kind = kind.removeprefix("tuple[").partition(",")[0]
    return tuple(_scalar(name, item_kind, item, source) for item in value)


_SCALARS: dict[str, tuple[tuple[type, ...], str]] = {
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "str": ((str,), "text"),
    "bool": ((bool,), "true or false"),
}


def _scalar(name: str, kind: str, value: object, source: str) -> object:
    types, words = _SCALARS[kind]
    if not isinstance(value, types) or isinstance(value, bool) is not (kind == "bool"):
        raise CampaignError(
            f"{source}: {name} is or holds {truncated_repr(value)}; allowed: {words}"
        )
    if isinstance(value, int) and abs(value) > SEED_MAX:
        raise CampaignError(
            f"{source}: {name} is or holds {truncated_repr(value)}; allowed: 64 bits"
        )
    return value


CAMPAIGNS = Path(__file__).parent / "campaigns"
FILE_BYTES_MAX = 4 * 2**20


def campaign_names() -> list[str]:
    return sorted(path.stem for path in CAMPAIGNS.glob("*.toml"))


def load_options(name_or_path: str) -> dict[str, Any]:
    """Options of a named campaign or of a campaign file.

    Raises CampaignError if there is neither.
    """
    path = CAMPAIGNS / f"{name_or_path}.toml"
    if name_or_path not in campaign_names():
        path = Path(name_or_path)
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise CampaignError(
                f"campaign {name_or_path!r} is larger than {FILE_BYTES_MAX} bytes, which are allowed"
            )
        text = data.decode("utf-8").replace("\r\n", "\n")
    except (OSError, ValueError) as error:
        if isinstance(error, CampaignError):
            raise
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise CampaignError(
            f"campaign {name_or_path!r} cannot be read ({reason}); "
            f"give a file or one of: {', '.join(campaign_names())}"
        ) from error
    return read_options(text, str(name_or_path))
