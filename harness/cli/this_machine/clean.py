"""`staticfire clean`: removes what killed runs have left on this machine."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from pathlib import Path
from typing import Any

import click

from staticfire.faults.errors import FaultError
from staticfire.faults.linux.executor import Executor, LocalExecutor
from staticfire.faults.linux.inventory import Journal, Removal, journals, read_journal
from staticfire.faults.linux.inventory import clean as clean_journal
from staticfire.faults.linux.resources import removal_order
from staticfire.harness.cli.progress import working
from staticfire.harness.cli.status import EXIT_HARNESS_ERROR, BadInput
from staticfire.harness.machines.options import MachineOptionError, MachineOptions, SshHost
from staticfire.harness.state import VARIABLE, state_folder


@click.command(short_help="Remove what killed runs left on this machine.")
@click.option(
    "--state",
    metavar="DIR",
    help=f"State folder of the runs. Default: ${VARIABLE}, or a folder under the temporary directory.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--ssh-key", metavar="FILE", help="Private key for the hosts of --environment ssh.")
@click.option(
    "--ssh-known-hosts",
    metavar="FILE",
    help="Known-hosts file to use in addition to the user's own.",
)
def clean(
    state: str | None,
    dry_run: bool,
    as_json: bool,
    ssh_key: str | None,
    ssh_known_hosts: str | None,
) -> int:
    """Remove the processes, mounts, loop devices, network namespaces, nftables tables and folders of killed runs,
    and their containers.

    Every run records what it is about to create, and the command removes exactly that. `cluster up`, planted defects
    and C++ clients record their temporary folders in the same way. The command does not touch runs in progress.

    \b
    Example:
      staticfire clean --dry-run
      staticfire clean
      staticfire clean --ssh-key ~/.ssh/id_ed25519

    Exit status: 0 clean, 254 bad arguments, 255 something could not be removed.
    """
    hosts = MachineOptions(ssh_key=ssh_key, known_hosts=ssh_known_hosts)
    folder = _folder(state)
    with working("removing"), nullcontext() if dry_run else _alone(folder):
        found = [_report(path, hosts, dry_run=dry_run) for path in _journals(folder, state)]
    reports = [report for report in found if report is not None]
    if as_json:
        print(json.dumps(reports, indent=2))
    else:
        print("\n".join(_lines(reports)) or "nothing to clean")
    return EXIT_HARNESS_ERROR if any(map(_failed, reports)) else 0


def _folder(text: str | None) -> Path:
    folder = state_folder() if text is None else Path(text).expanduser()
    if text is not None and not folder.is_dir():
        raise BadInput(
            f"--state is {text!r}, which is no folder; allowed: the state folder of runs"
        )
    return folder


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other `clean` works there, since each removal first checks what there is to remove."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # no folder, so nothing to clean, or one that `journals` refuses
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _journals(folder: Path, text: str | None) -> list[Path]:
    try:
        return journals(folder)
    except FaultError as error:
        source = "--state" if text is not None else f"${VARIABLE}"
        raise BadInput(f"{source} is no state folder: {error}") from error


def _report(path: Path, hosts: MachineOptions, *, dry_run: bool) -> dict[str, object] | None:
    """Return the report on one run: what it left, and whether that was removed; None if it has just ended by itself."""
    try:
        journal = read_journal(path)
    except FileNotFoundError:
        return None
    except FaultError as error:
        return {"inventory": str(path), "error": str(error)}
    report: dict[str, Any] = {"inventory": str(path), "process": journal.owner.pid}
    if journal.owner.is_alive:
        return {**report, "running": True}
    if dry_run:
        left = removal_order(journal.left)
        return {**report, "resources": [_row(str(resource), "is left") for resource in left]}
    return {**report, "resources": [_outcome(removal) for removal in _clean(journal, hosts)]}


def _clean(journal: Journal, hosts: MachineOptions) -> list[Removal]:
    executor_of = cache(partial(_executor_of, hosts=hosts))  # one connection a host
    return asyncio.run(clean_journal(journal, executor_of))


def _executor_of(host: str, hosts: MachineOptions) -> Executor:
    """Return the executor of this machine ("") or of a host that a provider recorded. Raises FaultError otherwise."""
    if not host:
        return LocalExecutor()
    from staticfire.harness.machines.ssh.connection import SshExecutor

    try:
        return SshExecutor(SshHost.parse(host), hosts)
    except MachineOptionError as error:
        raise FaultError(str(error)) from error


def _outcome(removal: Removal) -> dict[str, str]:
    name = str(removal.resource)
    if removal.error:
        return _row(name, "failed", removal.error)
    return _row(name, "removed" if removal.removed else "was gone")


def _row(resource: str, outcome: str, error: str = "") -> dict[str, str]:
    return {"resource": resource, "outcome": outcome} | ({"error": error} if error else {})


def _failed(report: dict[str, Any]) -> bool:
    rows = report.get("resources", [])
    return "error" in report or any(row["outcome"] == "failed" for row in rows)


def _lines(reports: list[dict[str, Any]]) -> list[str]:
    lines = []
    for report in reports:
        if "error" in report:
            lines.append(f"failed    {report['error']}")
        elif report.get("running"):
            lines.append(f"running   process {report['process']} keeps {report['inventory']}")
        else:
            lines += [_line(row) for row in report["resources"]]
    return lines


def _line(row: dict[str, str]) -> str:
    reason = f": {row['error']}" if "error" in row else ""
    return f"{row['outcome']:<8}  {row['resource']}{reason}"
