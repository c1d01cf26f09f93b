"""Applies a unified diff, such as `git diff` writes, to a copy of the system, or says which hunk does not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import patch_ng

from staticfire.faults.errors import FaultError

SYSTEM = "system_under_test"
LINE_LENGTH_MAX = 80  # of a line that a message quotes
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")
# What git writes above the names of a file. It may be left out: these lines name blobs of one checkout.
_GIT_LINES = ("diff --git ", "index ", "old mode ", "new mode ", "similarity index ")


class DiffError(FaultError):
    """A diff that is none, that names other files, or that does not fit."""


@dataclass(slots=True)
class _Hunk:
    """One hunk: the number of its first line in the file, and the lines that must be there."""

    first: int
    before: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _FileDiff:
    name: str  # from the root of the repository
    hunks: list[_Hunk] = field(default_factory=list)


def plain_diff(diff: str) -> str:
    """The diff without the lines that git alone writes."""
    lines = diff.replace("\r\n", "\n").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(_GIT_LINES))


def apply_diff(diff: str, folder: Path) -> None:
    """Apply the diff to the copy of the system in `folder`. Raises DiffError; the copy may be changed then."""
    text = plain_diff(diff)
    files = list(_files_of(text))
    if not files:
        raise DiffError("there is no hunk in it; `git diff` writes one")
    for file in files:
        _check_hunks(file, folder)
    before = {file.name: (folder / file.name).read_bytes() for file in files}
    patches = patch_ng.fromstring(text.encode())
    if not patches or not patches.apply(strip=1, root=str(folder)):
        raise DiffError("it is no unified diff that can be applied")
    unchanged = [name for name, data in before.items() if (folder / name).read_bytes() == data]
    if unchanged:
        raise DiffError(f"it changes nothing in {unchanged[0]}")


def _files_of(text: str) -> Iterator[_FileDiff]:
    """The files of a diff with their hunks. Raises DiffError."""
    current: _FileDiff | None = None
    left = 0  # lines of the hunk that are still to come, of those before the change
    old = ""
    for line in text.splitlines():
        if left > 0 and current is not None and line[:1] in (" ", "-", ""):
            current.hunks[-1].before.append(line[1:])
            left -= 1
        elif line.startswith("--- "):
            old = line[4:].split("\t")[0]
        elif line.startswith("+++ "):
            if current is not None:
                yield current
            current = _FileDiff(_checked_name(old, line[4:].split("\t")[0]))
        elif (found := _HUNK.match(line)) and current is not None:
            current.hunks.append(_Hunk(int(found[1])))
            left = int(found[2] or 1)
    if current is not None:
        yield current


def _checked_name(old: str, new: str) -> str:
    """The name of the file, which must be one of the system. Raises DiffError."""
    for name, first in ((old, "a"), (new, "b")):
        parts = name.split("/")
        if parts[:2] != [first, SYSTEM] or ".." in parts:
            raise DiffError(
                f"it names {name!r}; allowed: files of {SYSTEM} that exist, as a/... and b/..."
            )
    return new.partition("/")[2]


def _check_hunks(file: _FileDiff, folder: Path) -> None:
    """Raises DiffError for the first hunk whose lines are not in the file."""
    path = folder / file.name
    if not path.is_file():
        raise DiffError(f"it names {file.name}, which does not exist")
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, hunk in enumerate(file.hunks, start=1):
        if _is_in(hunk.before, lines):
            continue
        place = f"hunk {number} of {len(file.hunks)} for {file.name}, line {hunk.first}"
        raise DiffError(f"{place}, does not fit: {_first_difference(hunk, lines)}")


def _is_in(wanted: Sequence[str], lines: Sequence[str]) -> bool:
    count = len(wanted)
    return any(list(lines[at : at + count]) == list(wanted) for at in range(len(lines) - count + 1))


def _first_difference(hunk: _Hunk, lines: Sequence[str]) -> str:
    for offset, wanted in enumerate(hunk.before):
        at = hunk.first - 1 + offset
        found = lines[at] if at < len(lines) else None
        if found == wanted:
            continue
        have = "the file ends before it" if found is None else f"the file has {_quoted(found)}"
        return f"it wants line {at + 1} to be {_quoted(wanted)}, {have}"
    return "its lines are there more than once"


def _quoted(line: str) -> str:
    return repr(line if len(line) <= LINE_LENGTH_MAX else line[: LINE_LENGTH_MAX - 3] + "...")
