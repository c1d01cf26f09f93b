"""`staticfire faults|workloads|campaigns`: lists, fitted to the terminal, or with a line each."""

from __future__ import annotations

import click

from staticfire.faults.plans.catalogue import FAULTS
from staticfire.harness.campaign.file import CAMPAIGNS, campaign_names
from staticfire.harness.console.terminal import list_lines
from staticfire.harness.workloads.catalogue import WORKLOADS


def _print(rows: list[tuple[str, str]]) -> None:
    print("\n".join(list_lines(rows)))


@click.command(short_help="List the kinds of fault.")
def faults() -> None:
    """List every kind of fault, one per line.

    \b
    Example:
      staticfire faults
    """
    _print([(fault.name, fault.summary) for fault in FAULTS.values()])


@click.command(short_help="List the workloads.")
def workloads() -> None:
    """List every workload, one per line.

    \b
    Example:
      staticfire workloads
    """
    _print([(workload.name, workload.summary) for workload in WORKLOADS.values()])


@click.command(short_help="List the named campaigns.")
def campaigns() -> None:
    """List every named campaign, one per line.

    \b
    Example:
      staticfire campaigns
    """
    _print([(name, _first_comment(name)) for name in campaign_names()])


def _first_comment(name: str) -> str:
    first = (CAMPAIGNS / f"{name}.toml").read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("#").strip()
