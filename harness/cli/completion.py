"""Completes values in a shell: known names, and runs in folders.

Click requests them with `_STATICFIRE_COMPLETE=bash_complete` in the environment. After an error there are no values,
since a message would appear in the user's command line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from staticfire.faults.defects import DEFECTS
from staticfire.faults.plans.catalogue import FAULTS
from staticfire.harness.campaign.campaign import ENVIRONMENTS, Campaign
from staticfire.harness.campaign.file import campaign_names
from staticfire.harness.run_folder.run_folder import CAMPAIGN_FILE, RunFolder, RunFolderError
from staticfire.harness.workloads.catalogue import WORKLOADS

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
Names = Callable[[], Iterable[str]]
CLIENTS = ("own", "cpp")
APACHE_OR_OWN = ("own", "apache")
CONFORMANCE_PLACES = ("loopback", *ENVIRONMENTS)
RUNS = Path("runs")
RUNS_MAX = 200  # only the newest runs are completed


def one_of(names: Names | Iterable[str]) -> Complete:
    """Complete one name."""

    def complete(_context: click.Context, _parameter: click.Parameter, text: str) -> Any:
        return _items(_known(names), text)

    return complete


def some_of(names: Names | Iterable[str]) -> Complete:
    """Complete the last name of a comma-separated list, without the names before it."""

    def complete(_context: click.Context, _parameter: click.Parameter, text: str) -> Any:
        before, comma, last = text.rpartition(",")
        taken = before.split(",")
        left = [one for one in _known(names) if one not in taken]
        return _items((f"{before}{comma}{one}" for one in left if one.startswith(last)), text)

    return complete


def complete_campaign(
    _context: click.Context, _parameter: click.Parameter, text: str
) -> list[CompletionItem]:
    """Complete a named campaign or a file."""
    return [CompletionItem(text, type="file"), *_items(campaign_names(), text)]


def complete_run(
    _context: click.Context, _parameter: click.Parameter, text: str
) -> list[CompletionItem]:
    """Complete the folder of a run: in the typed folder, or in `runs`, newest first; or any other folder."""
    folder = os.path.dirname(text) or str(RUNS)
    return [CompletionItem(text, type="dir"), *_items(map(str, _runs_in(Path(folder))), text)]


def complete_seed(
    context: click.Context, _parameter: click.Parameter, text: str
) -> list[CompletionItem]:
    """Complete the seeds of the runs in --runs."""
    folder = context.params.get("runs") or RUNS
    seeds = (run.name.rpartition("-")[2] for run in _runs_in(Path(folder)))
    return _items(dict.fromkeys(seed for seed in seeds if seed.isdecimal()), text)


def complete_node(
    context: click.Context, _parameter: click.Parameter, text: str
) -> list[CompletionItem]:
    """Complete the nodes of the command's run."""
    campaign = _campaign_of_run(context)
    topology = None if campaign is None else campaign.topology()
    return [] if topology is None else _items([*topology.servers, *topology.clients], text)


def complete_part(
    context: click.Context, _parameter: click.Parameter, text: str
) -> list[CompletionItem]:
    """Complete the parts of a node that `look` can show."""
    from staticfire.harness.explain.look import parts_of

    campaign = _campaign_of_run(context)
    return [] if campaign is None else _items(parts_of(campaign), text)


def _campaign_of_run(context: click.Context) -> Campaign | None:
    # click has not parsed the argument while an option lacks its value
    run = context.params.get("run") or next(iter(context.args), "")
    try:
        return RunFolder(Path(str(run))).read_campaign()
    except RunFolderError:
        return None


def faults() -> list[str]:
    return ["all", "none", *FAULTS]


def defects() -> list[str]:
    return list(DEFECTS)


def workloads() -> list[str]:
    return list(WORKLOADS)


def all_or_workloads() -> list[str]:
    return ["all", *WORKLOADS]


def checkers() -> list[str]:
    """Return the checkers that planted bugs name."""
    return sorted({checker for bug in DEFECTS.values() for checker in bug.checkers})


def anomalies() -> list[str]:
    from staticfire.checkers.guarantees.anomaly_rules import RULES

    return list(RULES)


def systems() -> list[str]:
    from staticfire.harness.systems.registry import known_systems

    return known_systems()


def policies() -> list[str]:
    """Return the behaviours of docs/faithful.md that can be chosen one by one."""
    from staticfire.harness.targets.own_cluster import known_policies

    return ["all", *known_policies()]


def store_policies() -> list[str]:
    """Return the behaviours that concern the store alone."""
    return [name for name in policies() if name.startswith("store.")]


def profiles() -> list[str]:
    """Return the profiles of promises."""
    from staticfire.checkers.guarantees.promise_table import PROFILES

    return ["all", *map(str, PROFILES)]


def conformance_profiles() -> list[str]:
    from staticfire.harness.conformance.sites.suite import PROFILES

    return list(PROFILES)


def clauses() -> list[str]:
    from staticfire.harness.conformance.clause import contract

    return list(contract())


def op_kinds() -> list[str]:
    """Return the kinds of op by the names that histories use."""
    from staticfire.checkers.op_kinds.catalogue import OP_KINDS

    return sorted({kind.recorded_name for kind in OP_KINDS.values()})


def _known(names: Names | Iterable[str]) -> Iterable[str]:
    return names() if callable(names) else names


def _items(names: Iterable[str], text: str) -> list[CompletionItem]:
    """Return completion items, without names whose control characters would break the lines of the protocol."""
    return [CompletionItem(one) for one in names if one.startswith(text) and one.isprintable()]


def _runs_in(folder: Path) -> list[Path]:
    """Return the runs directly in a folder, the newest first, as their names begin with a date."""
    try:
        names = sorted(os.listdir(folder), reverse=True)
    except OSError:
        return []
    found = []
    for name in names:
        if name.isprintable() and os.path.isfile(folder / name / CAMPAIGN_FILE):
            found.append(folder / name)
        if len(found) == RUNS_MAX:
            break
    return found
