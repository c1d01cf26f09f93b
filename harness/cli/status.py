"""Exit statuses (Jepsen's), and the errors for bad input and for failures of the harness."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from staticfire.harness.truncated_repr import printable

EXIT_VALID = 0
EXIT_INVALID = 1
EXIT_UNKNOWN = 2
EXIT_BAD_ARGUMENTS = 254
EXIT_HARNESS_ERROR = 255


# Errors caused by a bad name from the user. All other errors are the machine's.
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
SENTENCE_MAX = 600  # characters; the middle of a longer sentence is left out


class BadInput(ValueError):
    """The user's input is wrong. One sentence: the error, the value, what is allowed."""


class HarnessError(Exception):
    """The harness failed. One sentence with the reason."""


@contextmanager
def turn_errors(
    *kinds: type[Exception], into: type[BadInput] | type[HarnessError]
) -> Iterator[None]:
    """Raise errors of these kinds in the block as `into`, with the same sentence; others pass as they are."""
    try:
        yield
    except kinds as error:
        raise into(str(error)) from error


def of_a_file(error: OSError, path: Path | None) -> BadInput | HarnessError:
    """Return BadInput for a bad file name, or HarnessError for a failure of the machine, such as a full disk.

    `path` is the file being written, for errors that name no file.
    """
    number, name, said = error.errno, error.filename, error.strerror
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list):
        said = str(error.args[0][0][-1])  # the text of the first error, if many files have errors
        number = next((one for one in OF_THE_NAME if f"[Errno {one}]" in said), None)
    if name is None:
        name = path
    if name is None:
        return HarnessError(f"the machine failed: {said or error}")
    text = f"{os.fsdecode(os.fspath(name))} cannot be used: {said or error}"
    return BadInput(text) if number in OF_THE_NAME else HarnessError(text)


def one_sentence(text: str) -> str:
    """Return the text as one line of at most SENTENCE_MAX characters."""
    line = printable(" ".join(text.split()))
    if len(line) <= SENTENCE_MAX:
        return line
    return f"{line[: SENTENCE_MAX // 2]} ... {line[-SENTENCE_MAX // 2 :]}"


def status_of_validity(valid: object) -> int:
    if valid is True:
        return EXIT_VALID
    return EXIT_INVALID if valid is False else EXIT_UNKNOWN
