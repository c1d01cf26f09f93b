"""Exit statuses (Jepsen's) and the error that means "your input, not our fault"."""

from __future__ import annotations

EXIT_VALID = 0
EXIT_INVALID = 1
EXIT_UNKNOWN = 2
EXIT_BAD_ARGUMENTS = 254
EXIT_HARNESS_ERROR = 255


class BadInput(ValueError):
    """One sentence: what is wrong, the value, what is allowed."""


def status_of_validity(valid: object) -> int:
    if valid is True:
        return EXIT_VALID
    return EXIT_INVALID if valid is False else EXIT_UNKNOWN
