"""`staticfire promises`: shows the meaning of each anomaly, by profile and by damage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import get_args

import click
import orjson
from rich.console import Console
from rich.table import Table

from staticfire.checkers.guarantees.anomaly_rules import RULES
from staticfire.checkers.guarantees.facts import Keeping, MinimumEvidence, Mode, Replication
from staticfire.checkers.guarantees.promise_table import (
    ANYTHING,
    PROFILES,
    Profile,
    Promise,
    promises_of,
)
from staticfire.harness.cli.completion import anomalies as anomaly_names
from staticfire.harness.cli.completion import one_of, profiles
from staticfire.harness.cli.status import BadInput
from staticfire.harness.cli.suggestions import did_you_mean
from staticfire.harness.report.verdict_lines import WIDTH
from staticfire.harness.truncated_repr import truncated_repr

DEFAULT_PROFILES = ("sync/sync/hardened", "sync/sync/faithful")


@click.command(short_help="Show which anomalies are violations in which profile.")
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="FLUSH/REPLICATION[/MODE]",
    shell_complete=one_of(profiles),
    help="sync, async or pool; none, async or sync; hardened or faithful; or 'all'. May be repeated.",
)
@click.option(
    "--anomaly",
    "anomalies",
    multiple=True,
    metavar="NAME",
    shell_complete=one_of(anomaly_names),
    help="Only these anomalies.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON line for each promise.")
def promises(profiles: tuple[str, ...], anomalies: tuple[str, ...], as_json: bool) -> int:
    """Show what an anomaly means: a violation, allowed, or informational (a documented hazard).

    Flush, replication and the damage by faults decide which messages may be lost, so such anomalies have one line per
    kind of damage. Without options, the command shows the strictest profile in both modes.

    \b
    Example:
      staticfire promises
      staticfire promises --profile async/sync --anomaly lost
      staticfire promises --profile all --json
    """
    shown = _profiles(profiles or DEFAULT_PROFILES)
    names = _anomalies(anomalies)
    lines = [line for profile in shown for name in names for line in promises_of(profile, name)]
    if as_json:
        print("\n".join(orjson.dumps(_fields(line)).decode() for line in lines))
    else:
        console = Console()
        console = console if console.is_terminal else Console(width=WIDTH)
        console.print(_table(shown, lines))
        console.print(_floors())
    return 0


def _floors() -> str:
    floors = MinimumEvidence()
    return (
        f"A run is unknown, never valid, with fewer than {floors.acked_min} acknowledged sends (a campaign may ask "
        f"for more), with faults planned and fewer than {floors.bitten_min} that bit, with a fault that failed or was "
        "not healed, or with a group that was not drained."
    )


def _profiles(names: Sequence[str]) -> list[Profile]:
    if "all" in names:
        return list(PROFILES)
    return list(dict.fromkeys(map(_profile, names)))


def _profile(name: str) -> Profile:
    known = {str(profile): profile for profile in PROFILES}
    full = name if name.count("/") == 2 else f"{name}/hardened"
    if full not in known:
        parts = (" or ".join(get_args(part)) for part in (Keeping, Replication, Mode))
        suggested = did_you_mean(full, known)
        raise BadInput(
            f"--profile is {truncated_repr(name)}; {suggested + ' ' if suggested else ''}allowed: {' / '.join(parts)}, "
            "or 'all'"
        )
    return known[full]


def _anomalies(names: Sequence[str]) -> list[str]:
    for name in names:
        if name not in RULES:
            raise BadInput(f"--anomaly is {truncated_repr(name)}; there are: {', '.join(RULES)}")
    return list(names or RULES)


def _fields(line: Promise) -> dict[str, object]:
    return {**asdict(line), "profile": str(line.profile), "judgement": str(line.judgement)}


def _table(profiles: Sequence[Profile], lines: Sequence[Promise]) -> Table:
    """Return a table with a row for each anomaly and meaning, and a column for each profile."""
    table = Table(title="What an anomaly means")
    table.add_column("anomaly", no_wrap=True)
    table.add_column("after", overflow="fold")
    for profile in profiles:
        table.add_column(str(profile), overflow="fold")
    table.add_column("promise, or what excuses it", overflow="fold")
    for anomaly in dict.fromkeys(line.anomaly for line in lines):
        first = anomaly
        of_anomaly = [line for line in lines if line.anomaly == anomaly]
        for (judgements, text), damages in _rows(profiles, of_anomaly).items():
            table.add_row(first, damages, *judgements, text)
            first = ""
    return table


def _rows(
    profiles: Sequence[Profile], lines: Sequence[Promise]
) -> dict[tuple[tuple[str, ...], str], str]:
    """Return the damages of an anomaly by its meaning: (the judgement under each profile, the promise)."""
    rows: dict[tuple[tuple[str, ...], str], list[str]] = {}
    damages = dict.fromkeys(line.damage for line in lines)
    for damage in damages:
        found = {line.profile: line for line in lines if line.damage == damage}
        judgements = tuple(
            str(found[profile].judgement) if profile in found else "-" for profile in profiles
        )
        text = "; ".join(dict.fromkeys(line.text for line in found.values()))
        rows.setdefault((judgements, text), []).append(damage)
    same_after_any_damage = len(rows) == 1
    return {
        row: ANYTHING if same_after_any_damage else "; ".join(names) for row, names in rows.items()
    }
