"""Exit statuses (Jepsen's) and the error that means "your input, not our fault"."""

from __future__ import annotations

import errno

from staticfire.harness.truncated_repr import printable

EXIT_VALID = 0
EXIT_INVALID = 1
EXIT_UNKNOWN = 2
EXIT_BAD_ARGUMENTS = 254
EXIT_HARNESS_ERROR = 255


# What is wrong with a name that the user gave; anything else is wrong with the machine.
OF_THE_NAME = (
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EACCES,
    errno.EPERM,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.EEXIST,
)
SENTENCE_MAX = 600  # characters; a longer value is shown without its middle


class BadInput(ValueError):
    """One sentence: what is wrong, the value, what is allowed."""


class HarnessError(Exception):
    """One sentence: why the harness could not do what it was asked."""


def one_sentence(text: str) -> str:
    """The text as one line of bearable length, whatever value it repeats."""
    line = printable(" ".join(text.split()))
    if len(line) <= SENTENCE_MAX:
        return line
    return f"{line[: SENTENCE_MAX // 2]} ... {line[-SENTENCE_MAX // 2 :]}"


def status_of_validity(valid: object) -> int:
    if valid is True:
        return EXIT_VALID
    return EXIT_INVALID if valid is False else EXIT_UNKNOWN
