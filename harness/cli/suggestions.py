"""Suggests the nearest known names for a mistyped name.

All parts of the project refuse a value in the same form, "NAME is 'value'; allowed: one, two, three". So this module
can add the suggestion to any refusal, and cut a long list of names.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import islice

NEAR_MAX = 3
LISTED_MAX = 16  # names; a longer list is omitted if there is a near name, and cut otherwise
SCANNED_MAX = 10_000  # files of a folder
CUTOFF = 0.6  # of difflib's ratio

FILE_OR_NAME = "give a file or one of"
_NAME = r"[\w%][\w./:%*-]*"
_REFUSAL = re.compile(
    rf"(?P<value>'[^']*'|\"[^\"]*\")(?P<then>[^;']*); "
    rf"(?P<word>allowed(?: with [^:;]*)?|there are|{FILE_OR_NAME}):? (?P<names>{_NAME}(?:, {_NAME})+)"
    r"(?P<more>, or [^;]*)?$"
)
_CHOICE = re.compile(
    r"(?P<value>'[^']*') is not one of (?P<names>'[^']*'(?:, '[^']*')+)(?P<end>\.?)$"
)

_NO_FOLDER = re.compile(
    r"(?P<path>.+) (?:is not a folder|is no folder|is not there|does not exist); give .*the folder of a run"
)

_EXTRA = re.compile(r"Got unexpected extra arguments? \((?P<extra>.+)\)$")


def near(name: str, known: Iterable[str]) -> list[str]:
    """Return at most NEAR_MAX known names that are similar to `name`, the nearest first."""
    names = list(dict.fromkeys(known))
    by_lower = {one.lower(): one for one in reversed(names)}
    found = [by_lower[one] for one in get_close_matches(name.lower(), by_lower, NEAR_MAX, CUTOFF)]
    if len(name) >= 3:  # a part of a long name is not close to the whole of it
        found += [one for one in names if name.lower() in one.lower() and one not in found]
    return found[:NEAR_MAX]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "did you mean one or two?", or an empty text."""
    found = near(name, known)
    return f"did you mean {' or '.join(found)}?" if found else ""


def with_suggestion(sentence: str) -> str:
    """Add the nearest allowed names to a sentence that refuses a name; return any other sentence unchanged."""
    if found := _REFUSAL.search(sentence):
        names = found["names"].split(", ")
        value = found["value"][1:-1]
        if value in names:
            return sentence
        before = sentence[: found.end("then")]
        listed = f"{found['word']}: {_cut(names)}{found['more'] or ''}"
        suggested = did_you_mean(value, names)
        if not suggested and found["word"] == FILE_OR_NAME:
            suggested = _near_files(value)
        if not suggested:
            return f"{before}; {listed}"
        return f"{before}; {suggested}" + (f" {listed}" if len(names) <= LISTED_MAX else "")
    if found := _NO_FOLDER.match(sentence):
        suggested = _near_files(found["path"])
        return f"{sentence}; {suggested}" if suggested else sentence
    if found := _EXTRA.search(sentence):
        is_file = os.path.exists(found["extra"].split()[0])
        return (
            f"{sentence}; a pattern such as runs/* must match one run here" if is_file else sentence
        )
    if found := _CHOICE.search(sentence):
        names = [one[1:-1] for one in found["names"].split(", ")]
        suggested = did_you_mean(found["value"][1:-1], names)
        return f"{sentence.rstrip('.')}; {suggested}" if suggested else sentence
    return sentence


def _near_files(path: str) -> str:
    """Return files and folders with similar names beside the missing one."""
    folder, name = os.path.split(path.rstrip("/"))
    try:
        with os.scandir(folder or ".") as entries:
            names = [entry.name for entry in islice(entries, SCANNED_MAX)]
    except (OSError, ValueError):
        return ""
    nearest = near(name, sorted(set(names) - {name}))
    known = (os.path.join(folder, one) for one in nearest if one.isprintable())
    found = [shlex.quote(one) for one in known]
    return f"did you mean {' or '.join(found)}?" if found else ""


def _cut(names: Sequence[str]) -> str:
    if len(names) <= LISTED_MAX:
        return ", ".join(names)
    return f"{', '.join(names[:LISTED_MAX])}, and {len(names) - LISTED_MAX} more"
