"""The contents of a message: what a client reports about it beside its key and position.

In a history a delivered message may end with its contents: `[message id, tag, properties, born, stored, size, origin]`,
null for values that the client does not know (docs/history.md). Message id and properties are digests, so that columns
can hold them and clients in any language can compute them. Clients import this module, so it needs only the standard
library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

CONTENTS: Final = ("message_id", "tag", "properties", "born_ms", "stored_ms", "size", "origin")
WIDTH: Final = len(CONTENTS)
TAG: Final = CONTENTS.index("tag")
NO_PROPERTIES: Final = 0  # digest of no properties at all
VALUE_MAX: Final = 2**63 - 1
NAME_END, PROPERTY_END = "\x01", "\x02"  # as in a stored message

Contents = Sequence[object]  # in the order of CONTENTS
UNKNOWN_CONTENTS: Final[Contents] = (None,) * WIDTH


def digest_of_text(text: str) -> int:
    """Return the first 63 bits of the SHA-256 of the text in UTF-8: 0 to 2^63 - 1."""
    return int.from_bytes(sha256(text.encode()).digest()[:8]) >> 1


def digest_of_properties(properties: Mapping[str, str]) -> int:
    """Return the digest of the user's properties, which does not depend on their order; NO_PROPERTIES for none."""
    if not properties:
        return NO_PROPERTIES
    pairs = (f"{name}{NAME_END}{properties[name]}{PROPERTY_END}" for name in sorted(properties))
    return digest_of_text("".join(pairs))


def check_contents(contents: object) -> None:
    """Raise ValueError unless the value is valid contents: a list in the order of CONTENTS."""
    if type(contents) is not list or len(contents) != WIDTH:
        raise ValueError(f"contents are {contents!r:.80}; expected a list of {', '.join(CONTENTS)}")
    for number, value in enumerate(contents):
        if value is None or (number == TAG and type(value) is str):
            continue
        if number == TAG or type(value) is not int or not 0 <= value <= VALUE_MAX:
            wanted = "text" if number == TAG else "0 to 2^63 - 1"
            raise ValueError(f"{CONTENTS[number]} is {value!r:.80}; expected {wanted} or null")


def widest(messages: Sequence[Sequence[object]]) -> int:
    """Return the number of fields of the longest message. Raises ValueError for a message that has no length."""
    try:
        return len(messages[0]) if len(messages) == 1 else max(map(len, messages))
    except TypeError:
        odd = next(message for message in messages if not hasattr(message, "__len__"))
        raise ValueError(f"message is {odd!r:.80}; expected a list") from None


def split(
    messages: Sequence[Sequence[Any]], width: int
) -> tuple[list[Sequence[Any]], list[Contents]]:
    """Split the messages of an op into their first `width` fields, and their contents (UNKNOWN_CONTENTS if none)."""
    plain = [message[:width] for message in messages]
    return plain, [row[width] if len(row) == width + 1 else UNKNOWN_CONTENTS for row in messages]
