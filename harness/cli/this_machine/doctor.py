"""`staticfire doctor`: tries which faults this machine can carry out in which environment, and what others need."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from staticfire.faults.errors import FaultError
from staticfire.faults.linux.abilities.survey import Capability, survey
from staticfire.faults.linux.executor import LocalExecutor
from staticfire.faults.linux.inventory import Inventory
from staticfire.faults.linux.machine import LinuxMachine
from staticfire.faults.plans.catalogue import FAULTS
from staticfire.harness.campaign.campaign import ENVIRONMENTS
from staticfire.harness.cli.progress import working
from staticfire.harness.cli.status import HarnessError
from staticfire.harness.environments.real.machine_needs import Diagnosis, diagnose
from staticfire.harness.state import state_folder

WIDTH_MAX = 1000  # of the table, which is never cut to the terminal


@click.command(short_help="Show which faults work on this machine.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(as_json: bool) -> int:
    """Test which faults work on this machine in each environment, and show what to install for the others.

    Run it as root to test everything. It creates small disks and namespaces, and removes them again.

    \b
    Example:
      staticfire doctor
      staticfire doctor --json

    Exit status: 0 done, 254 bad arguments, 255 what was made could not be removed.
    """
    capabilities = _survey()
    diagnoses = {name: diagnose(name, capabilities) for name in ENVIRONMENTS}
    if as_json:
        print(json.dumps(_json(capabilities, diagnoses), indent=2))
    else:
        _show(capabilities, diagnoses)
    return 0


def _survey() -> list[Capability]:
    """Raises HarnessError."""
    if sys.platform != "linux":
        return []
    try:
        inventory = Inventory.begin(state_folder())
        machine = LinuxMachine(executor=LocalExecutor(), inventory=inventory, python=sys.executable)
        folder = Path(tempfile.gettempdir()) / f"staticfire-doctor-{inventory.identity}"
        try:
            with working("trying", unit="abilities of this machine"):
                return asyncio.run(survey(machine, str(folder)))
        finally:
            inventory.close()
    except (FaultError, OSError) as error:
        raise HarnessError(f"the survey of this machine failed: {error}") from error


def _json(capabilities: list[Capability], diagnoses: dict[str, Diagnosis]) -> dict[str, object]:
    return {
        "capabilities": [capability.to_json() for capability in capabilities],
        "environments": {name: found.to_json() for name, found in diagnoses.items()},
    }


def _show(capabilities: list[Capability], diagnoses: dict[str, Diagnosis]) -> None:
    console = Console(highlight=False)
    table = Table("fault", *diagnoses, box=None, header_style="bold", pad_edge=False)
    for fault in FAULTS:
        table.add_row(fault, *(_mark(found.missing.get(fault)) for found in diagnoses.values()))
    wide = console.options.update(width=WIDTH_MAX)
    console.width = max(console.width, console.measure(table, options=wide).maximum)
    console.print(table)
    if reasons := _reasons(diagnoses):
        console.print("\n[bold]missing[/bold]")
        console.print("\n".join(reasons), soft_wrap=True, markup=False)
    console.print("\n[bold]this machine[/bold]")
    console.print("\n".join(map(_line, capabilities)), soft_wrap=True, markup=False)


def _mark(reason: str | None) -> str:
    return "[green]yes[/green]" if reason is None else "[red]no[/red]"


def _reasons(diagnoses: dict[str, Diagnosis]) -> list[str]:
    """Return a line for each environment and reason; it names the faults unless it concerns all of them."""
    lines = []
    for name, found in diagnoses.items():
        by_reason: dict[str, list[str]] = {}
        for fault, reason in found.missing.items():
            by_reason.setdefault(reason, []).append(fault)
        for reason, faults in by_reason.items():
            which = "every fault" if len(faults) == len(FAULTS) else ", ".join(faults)
            lines.append(f"{name}: {which}: {reason}")
    return lines


def _line(capability: Capability) -> str:
    answer = "yes" if capability.available else f"no: {capability.advice}"
    return f"{capability.name:<15} {answer}"
