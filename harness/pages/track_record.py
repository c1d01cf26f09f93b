"""Tables of docs/track-record.md, from docs/data/track-record.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Literal, get_args

from staticfire.checkers.model.typed_fields import check_types
from staticfire.harness.pages.generated import ROOT, PageError, table

DATA = ROOT / "docs" / "data" / "track-record.toml"
Where = Literal["own", "apache", "client"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """A real bug that Staticfire has found. Own ones have the commit of their fix, others a page."""

    where: str
    what: str
    found_by: str
    command: str
    date: date
    status: str
    commit: str = ""
    page: str = ""


def read_bugs(path: Path = DATA) -> list[Bug]:
    """Read the bugs in the order of the file. Raises PageError."""
    rows: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["bug"]
    return [_bug(row, f"bug {number} of {path.name}") for number, row in enumerate(rows, 1)]


def _bug(row: dict[str, Any], entry: str) -> Bug:
    try:
        bug = Bug(**row)
        for name in ("where", "what", "found_by", "command", "status", "commit", "page"):
            check_types(getattr(bug, name), str, name)
    except TypeError as error:
        raise PageError(f"{entry}: {error}") from error
    if bug.where not in get_args(Where):
        raise PageError(f"{entry}: where is {bug.where!r}; allowed: {', '.join(get_args(Where))}")
    if not (bug.commit if bug.where == "own" else bug.page):
        raise PageError(f"{entry}: an own bug needs its commit, any other one its page")
    return bug


def counts_text() -> str:
    """Return the numbers of bugs of each kind."""
    bugs = read_bugs()
    own, apache, client = (sum(bug.where == where for bug in bugs) for where in get_args(Where))
    return f"{own} in our own cluster, {apache} in Apache RocketMQ 4.9.8, {client} in a client."


def bugs_table(where: Where) -> str:
    """Return the table of bugs of one kind."""
    head = ("date", "what was wrong", "found by", "command", "status")
    return table(head, [_row(bug) for bug in read_bugs() if bug.where == where])


def _row(bug: Bug) -> tuple[str, ...]:
    status = f"{bug.status} in {bug.commit}" if bug.commit else f"{bug.status}; [more]({bug.page})"
    return str(bug.date), bug.what, bug.found_by, f"`{bug.command}`", status
