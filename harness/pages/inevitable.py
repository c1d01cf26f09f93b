"""The table of docs/explain.md: when failures became inevitable, against the causes that the pieces name."""

from __future__ import annotations

from statistics import median

from staticfire.checkers.guarantees.verdict import seconds
from staticfire.faults.defects import DEFECTS
from staticfire.harness.museum.figures import read_figures
from staticfire.harness.museum.inevitable import DATA, Jump, pieces_with_cause
from staticfire.harness.pages.generated import table

NOTHING = "Nothing has been measured yet."


def jumps_text() -> str:
    """Return the score in sentences."""
    jumps = _measured()
    if not jumps:
        return NOTHING
    near = [jump for jump in jumps.values() if jump.is_near]
    complete = [jump for jump in jumps.values() if jump.is_complete]
    text = (
        f"Of {len(pieces_with_cause())} pieces {len(jumps)} were measured. "
        f"The jump is within 1 % of the run of the cause in {len(near)}."
    )
    if not complete:
        return text
    cpu_s, wall_s = [jump.cpu_s for jump in complete], [jump.wall_s for jump in complete]
    return (
        f"{text}\nMedian {median(cpu_s):.0f}, at most {max(cpu_s):.0f} CPU s; "
        f"median {median(wall_s):.0f}, at most {max(wall_s):.0f} s of wall time."
    )


def jumps_table() -> str:
    """Return the table of measured pieces."""
    head = ("piece", "cause", "at", "jump between", "off by, of the run", "forks", "CPU s", "s")
    return table(head, [_row(name, jump) for name, jump in _measured().items()])


def _row(name: str, jump: Jump) -> tuple[str, ...]:
    cause = ", then ".join(f"`{kind.replace('|', '` or `')}`" for kind in DEFECTS[name].cause or ())
    before = "the start" if jump.before_ns is None else seconds(jump.before_ns)
    sides = before if jump.before_ns is None else f"{before} - {seconds(jump.after_ns)}"
    return (
        f"`{name}`",
        cause or "none is needed",
        "none found" if jump.cause_ns is None else seconds(jump.cause_ns),
        sides if jump.is_complete else f"{sides}, not complete",
        "" if jump.off is None else f"{jump.off:.1%}".replace("%", " %"),
        str(jump.continuations),
        f"{jump.cpu_s:.0f}",
        f"{jump.wall_s:.0f}",
    )


def _measured() -> dict[str, Jump]:
    jumps = read_figures(DATA, Jump)
    return {name: jumps[name] for name in pieces_with_cause() if name in jumps}
