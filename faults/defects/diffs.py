"""Applies a unified diff, such as `git diff` writes, to a copy of the system, or says which hunk does not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import cache_from_source
from pathlib import Path

from staticfire.faults.errors import FaultError

SYSTEM = "system_under_test"
LINE_LENGTH_MAX = 80  # characters of a line quoted in an error message
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")
# Lines that git writes above the names of a file. They are optional, since they name blobs of one checkout.
_GIT_LINES = ("diff --git ", "index ", "old mode ", "new mode ", "similarity index ")
_NO_NEWLINE = "\\ "  # git: "\ No newline at end of file"


class DiffError(FaultError):
    """A text is not a diff, or the diff names other files than the system's, or does not fit."""


@dataclass(slots=True)
class _Hunk:
    """One hunk: the number of its first line in the file, the lines to be replaced, and their replacement."""

    first: int
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _FileDiff:
    name: str  # path from the root of the repository
    hunks: list[_Hunk] = field(default_factory=list)


def plain_diff(diff: str) -> str:
    """Return the diff without lines that only git writes."""
    lines = diff.replace("\r\n", "\n").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(_GIT_LINES))


def apply_diff(diff: str, folder: Path) -> None:
    """Apply the diff to the copy of the system in `folder`. A hunk also fits where its lines have moved.

    Also removes the byte code of each changed file, since the interpreter compares only sizes and whole seconds. Raises
    DiffError, before anything has changed.
    """
    files = list(_files_of(plain_diff(diff)))
    if not any(file.hunks for file in files):
        raise DiffError("there is no hunk in it; `git diff` writes one")
    changed = {file.name: _patched(file, folder) for file in files}
    for name, text in changed.items():
        (folder / name).write_text(text, encoding="utf-8")
        Path(cache_from_source(str(folder / name))).unlink(missing_ok=True)


def _patched(file: _FileDiff, folder: Path) -> str:
    """Return the text of a file with all hunks. Raises DiffError for the first hunk that does not fit."""
    path = folder / file.name
    if not path.is_file():
        raise DiffError(f"it names {file.name}, which does not exist")
    before = path.read_text(encoding="utf-8")
    lines = before.split("\n")
    grown = 0  # lines that the hunks so far have added
    for number, hunk in enumerate(file.hunks, start=1):
        at = _place_of(hunk.before, lines, hunk.first - 1 + grown)
        if at is None:
            hunk_text = f"hunk {number} of {len(file.hunks)} for {file.name}, line {hunk.first}"
            reason = _first_difference(hunk, before.splitlines() if number == 1 else lines, grown)
            raise DiffError(f"{hunk_text}, does not fit: {reason}")
        lines[at : at + len(hunk.before)] = hunk.after
        grown += len(hunk.after) - len(hunk.before)
    if lines == before.split("\n"):
        raise DiffError(f"it changes nothing in {file.name}")
    return "\n".join(lines)


def _files_of(text: str) -> Iterator[_FileDiff]:
    """Yield the files of a diff with their hunks. Raises DiffError."""
    current: _FileDiff | None = None
    left = 0  # remaining lines of the hunk, before and after the change added up
    old = ""
    for line in text.splitlines():
        if line.startswith(_NO_NEWLINE):
            continue
        if left > 0 and current is not None and line[:1] in (" ", "-", "+", ""):
            left -= _take_line(current.hunks[-1], line)
        elif left > 0 and current is not None:
            raise _torn(current, left)
        elif line.startswith("--- "):
            old = line[4:].split("\t")[0]
        elif line.startswith("+++ "):
            if current is not None:
                yield current
            current = _FileDiff(_checked_name(old, line[4:].split("\t")[0]))
        elif (found := _HUNK.match(line)) and current is not None:
            current.hunks.append(_Hunk(int(found[1])))
            left = int(found[2] or 1) + int(found[3] or 1)
    if current is not None:
        if left > 0:
            raise _torn(current, left)
        yield current


def _torn(file: _FileDiff, left: int) -> DiffError:
    hunk = f"hunk {len(file.hunks)} for {file.name}, line {file.hunks[-1].first}"
    return DiffError(
        f"{hunk}, ends too early: its header counts {left} more lines of before and after"
    )


def _take_line(hunk: _Hunk, line: str) -> int:
    """Add a line to a hunk; return how many of the hunk's counted lines it is. An unchanged line counts twice."""
    if not line.startswith("+"):
        hunk.before.append(line[1:])
    if not line.startswith("-"):
        hunk.after.append(line[1:])
    return 1 if line[:1] in ("+", "-") else 2


def _checked_name(old: str, new: str) -> str:
    """Return the path of the file, which must be in the system. Raises DiffError."""
    for name, first in ((old, "a"), (new, "b")):
        parts = name.split("/")
        if parts[:2] != [first, SYSTEM] or ".." in parts:
            raise DiffError(
                f"it names {name!r}; allowed: files of {SYSTEM} that exist, as a/... and b/..."
            )
    return new.partition("/")[2]


def _place_of(wanted: Sequence[str], lines: Sequence[str], guess: int) -> int | None:
    """Return where these lines begin, as near to the guess as possible; None if they do not occur."""
    count = len(wanted)
    starts = (
        [at for at in range(len(lines) - count + 1) if lines[at] == wanted[0]] if wanted else []
    )
    fitting = [at for at in starts if list(lines[at : at + count]) == list(wanted)]
    return min(fitting, key=lambda at: abs(at - guess), default=None)


def _first_difference(hunk: _Hunk, lines: Sequence[str], grown: int) -> str:
    """Describe the first line of a hunk that differs from the file, at the position that the hunk names."""
    for offset, wanted in enumerate(hunk.before):
        at = hunk.first - 1 + offset
        found = lines[at + grown] if at + grown < len(lines) else None
        if found != wanted:
            have = "the file ends before it" if found is None else f"the file has {_quoted(found)}"
            return f"it wants line {at + 1} to be {_quoted(wanted)}, {have}"
    return "it has no line of the file"


def _quoted(line: str) -> str:
    return repr(line if len(line) <= LINE_LENGTH_MAX else line[: LINE_LENGTH_MAX - 3] + "...")
