"""Formats the rows of a table as Markdown: a line for each campaign, a column for each environment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from staticfire.harness.cli.table.rows import NOT_HERE, SIMULATION_ONLY, Row
from staticfire.harness.report.verdict_lines import rank
from staticfire.harness.truncated_repr import printable


def markdown_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Return a table for each target, followed by versions and the reasons for missing runs."""
    for target in dict.fromkeys(row.target for row in rows):
        if target != rows[0].target:
            yield ""
        yield from map(printable, _table(target, [row for row in rows if row.target == target]))


def outcome(row: Row) -> str:
    """Return the verdict in a few words; for an invalid run with its anomalies, the most serious one first."""
    if row.verdict == "invalid":
        names = sorted(row.anomalies, key=lambda name: (rank(name), -row.anomalies[name], name))
        return "INVALID: " + ", ".join(f"{row.anomalies[name]:,} {name}" for name in names)
    return f"unknown: {row.reason}" if row.verdict == "unknown" else row.verdict


def _table(target: str, rows: Sequence[Row]) -> Iterator[str]:
    environments = list(dict.fromkeys(row.environment for row in rows))
    yield _line([f"campaign, target {target}", *environments])
    yield _line(["---"] * (1 + len(environments)))
    for campaign in sorted({row.campaign for row in rows}):
        mine = [row for row in rows if row.campaign == campaign]
        yield _line([campaign, *(_text(mine, environment) for environment in environments)])
    yield ""
    for versions in dict.fromkeys(_versions(row) for row in rows if row.versions):
        yield f"Runs: {versions}."
    for reason in dict.fromkeys(row.reason for row in rows if row.verdict == NOT_HERE):
        without = dict.fromkeys(
            f"{row.campaign} in {row.environment}"
            for row in rows
            if (row.verdict, row.reason) == (NOT_HERE, reason)
        )
        yield f"Not here: {', '.join(without)}: {reason}."


def _text(rows: Iterable[Row], environment: str) -> str:
    """Return the results of a campaign in an environment, with an entry for each seed."""
    mine = sorted((row for row in rows if row.environment == environment), key=lambda row: row.seed)
    entries = {}
    for row in mine:
        text = outcome(row)
        if row.verdict not in (NOT_HERE, SIMULATION_ONLY):
            text += f" ({row.acknowledged:,} acknowledged, {row.wall_s:.0f} s)"
        entries[row.seed] = text
    if len(set(entries.values())) <= 1:
        return next(iter(entries.values()), "")
    return "<br>".join(f"seed {seed}: {text}" for seed, text in entries.items())


def _versions(row: Row) -> str:
    return ", ".join(f"{name} {version}" for name, version in row.versions.items())


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"
