"""The table of docs/shrink.md: the results of `shrink` for the run of each recipe."""

from __future__ import annotations

from statistics import median

from staticfire.faults.defects import DEFECTS
from staticfire.harness.museum.figures import read_figures
from staticfire.harness.museum.shrinking import DATA, Shrunk
from staticfire.harness.pages.generated import table

NOTHING = "Nothing has been measured yet."
WALL_S = 60.0  # the wall time in which a run should become small


def shrunk_text() -> str:
    """Return the figures in sentences."""
    rows = read_figures(DATA, Shrunk)
    reached = [one.reached for one in rows.values() if one.reached is not None]
    if not reached:
        return NOTHING
    cpu_s, wall_s = zip(*reached, strict=True)
    last_s = [one.last[0] for one in rows.values()]
    in_time = sum(one <= WALL_S for one in wall_s)
    repeated = sum(one.is_repeated for one in rows.values())
    return "\n".join(
        (
            f"{len(reached)} of {len(rows)} runs came to at most 3 faults and 10 ops: the median after"
            f" {median(cpu_s):.1f} CPU s ({median(wall_s):.0f} s),"
            f" the worst after {max(cpu_s):.1f} ({max(wall_s):.0f} s).",
            f"{in_time} got there within {WALL_S:.0f} s of wall time.",
            f"Their last improvement came after {median(last_s):.1f} CPU s in the median, {max(last_s):.1f} at worst.",
            f"Of {len(rows)} shrunk runs, {repeated} were the same when they were run once more.",
        )
    )


def shrunk_table() -> str:
    """Return the table of measured pieces, by tier."""
    rows = read_figures(DATA, Shrunk)
    known = sorted(
        (name for name in rows if name in DEFECTS),
        key=lambda name: ("SABM".index(DEFECTS[name].tier), name),
    )
    head = (
        "bug",
        "tier",
        "failure",
        "faults",
        "ops",
        "reached, CPU s",
        "reached, s",
        "last, CPU s",
        "last, s",
    )
    return table(head, [_row(name, rows[name]) for name in known])


def _row(name: str, one: Shrunk) -> tuple[str, ...]:
    reached = (
        ("-", "-") if one.reached is None else (f"{one.reached[0]:.1f}", f"{one.reached[1]:.0f}")
    )
    return (
        f"`{name}`",
        DEFECTS[name].tier,
        one.failure,
        "{} -> {}".format(*one.faults),
        "{} -> {}".format(*one.ops),
        *reached,
        f"{one.last[0]:.1f}",
        f"{one.last[1]:.0f}",
    )
