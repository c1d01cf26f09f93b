"""Words that a user chooses from a few."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from staticfire.faults.proxy.core.link_faults import LinkFaultError

Choice = TypeVar("Choice", bound=StrEnum)


def choice(kinds: type[Choice], what: str, value: str) -> Choice:
    """The member of an enum; raises LinkFaultError for any other word."""
    if value not in list(kinds):
        allowed = ", ".join(kind.value for kind in kinds)
        raise LinkFaultError(f"{what} is {value!r:.80}; allowed: {allowed}")
    return kinds(value)
