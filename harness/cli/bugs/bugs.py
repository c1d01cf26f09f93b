"""`staticfire bugs`: the planted bugs."""

from __future__ import annotations

import click

from staticfire.faults.defects import DEFECTS, TIERS, Defect
from staticfire.harness.cli.completion import checkers, defects, one_of
from staticfire.harness.cli.status import EXIT_VALID, BadInput
from staticfire.harness.console.terminal import list_lines
from staticfire.harness.truncated_repr import truncated_repr


@click.command(short_help="List the bugs that can be planted.")
@click.argument("name", required=False, shell_complete=one_of(defects))
@click.option(
    "--checker",
    metavar="NAME",
    shell_complete=one_of(checkers),
    help="List only bugs that this checker can find.",
)
@click.option(
    "--grep", metavar="TEXT", help="List only bugs with this text in their name, title or source."
)
def bugs(name: str | None, checker: str | None, grep: str | None) -> int:
    """List the planted bugs, one per line, or print the description of the bug NAME.

    Each is a real bug of a message queue, or one reversed decision, as a diff of a few lines with a campaign that shows
    it. docs/museum.md says which of them campaigns find, and how to write one.

    \b
    Example:
      staticfire bugs
      staticfire bugs --checker loss
      staticfire bugs --grep transaction
      staticfire bugs ack-before-fsync

    Exit status: 0 listed, 254 bad arguments, 255 harness error.
    """
    if name is not None:
        print("\n".join(description(bug_named(name))))
        return EXIT_VALID
    _check_checker(checker)
    wanted = (grep or "").casefold()
    found = [
        bug
        for bug in DEFECTS.values()
        if (checker is None or checker in bug.checkers)
        and wanted in f"{bug.name}\n{bug.title}\n{bug.source}".casefold()
    ]
    print(
        "".join(f"{line}\n" for line in list_lines([(bug.name, bug.title) for bug in found])),
        end="",
    )
    print(f"{len(found)} of {len(DEFECTS)} bugs; `staticfire reproduce NAME` shows one of them")
    return EXIT_VALID


def bug_named(name: str) -> Defect:
    """Return the bug. Raises BadInput for an unknown name, with similar names."""
    if name not in DEFECTS:
        raise BadInput(f"NAME is {truncated_repr(name)}; allowed: {', '.join(DEFECTS)}")
    return DEFECTS[name]


def description(bug: Defect) -> list[str]:
    """Return the description of a bug, as lines."""
    recipe = [f"campaign {bug.base}"] if bug.base else []
    recipe += [f"{option} = {value!r}" for option, value in bug.campaign.items()]
    if bug.store_crashes:
        recipe = [f"staticfire crash-store --cycles {bug.store_crashes} --defect {bug.name}"]
    return [
        f"bug       {bug.name}: {bug.title}",
        f"tier      {bug.tier}: {TIERS[bug.tier]}",
        f"source    {bug.source}",
        f"found by  {', '.join(bug.checkers)}",
        f"recipe    {', '.join(recipe)}",
        *([f"not yet   {bug.not_found}"] if bug.not_found else []),
        f"clauses   {', '.join(bug.conform) or 'none: ' + bug.not_by_conformance}",
        *(f"          {line}" for line in bug.diff.decode().splitlines()),
    ]


def _check_checker(name: str | None) -> None:
    """Raises BadInput."""
    known = sorted({checker for bug in DEFECTS.values() for checker in bug.checkers})
    if name is not None and name not in known:
        raise BadInput(f"--checker is {truncated_repr(name)}; allowed: {', '.join(known)}")
