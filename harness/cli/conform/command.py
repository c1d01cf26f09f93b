"""`staticfire conform`: the conformance suite against a broker, a name server, or a cluster that it starts itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from staticfire.harness.campaign.campaign import MODES
from staticfire.harness.cli.completion import (
    APACHE_OR_OWN,
    CLIENTS,
    CONFORMANCE_PLACES,
    clauses,
    conformance_profiles,
    defects,
    one_of,
    some_of,
)
from staticfire.harness.cli.machine_options import machine_options
from staticfire.harness.defect_loader import use_defect


@click.command(short_help="Test a RocketMQ against the contract, clause by clause.")
@click.option(
    "--environment",
    shell_complete=one_of(CONFORMANCE_PLACES),
    help="Where to test. Default: address with --name-server, loopback with another client, else simulation.",
)
@click.option(
    "--mode",
    default="hardened",
    show_default=True,
    shell_complete=one_of(MODES),
    help="Mode of our cluster: hardened or faithful.",
)
@click.option(
    "--target",
    default="own",
    show_default=True,
    shell_complete=one_of(APACHE_OR_OWN),
    help="The system to start: own, or apache (Apache RocketMQ in --home).",
)
@click.option(
    "--defect",
    default="",
    shell_complete=one_of(defects),
    help="Plant a bug in our cluster first: one of `staticfire bugs`, or a file NAME.diff.",
)
@click.option(
    "--client",
    metavar="own|cpp|COMMAND",
    shell_complete=one_of(CLIENTS),
    help="Judge a client: COMMAND followed by producer or consumer starts one.",
)
@click.option(
    "--profile",
    shell_complete=one_of(conformance_profiles),
    help="Clauses to try: broker-core, broker-ha, nameserver, durable, ... Default: all, or client with --client.",
)
@click.option(
    "--select",
    "patterns",
    metavar="PATTERN[,PATTERN...]",
    shell_complete=some_of(clauses),
    multiple=True,
    help="Only these clauses: RMQ-TXN-*, area:SND, level:must, needs:fault. May be repeated.",
)
@click.option("--list", "only_list", is_flag=True, help="List the cases and run nothing.")
@click.option("--contract", "only_contract", is_flag=True, help="Print the contract as Markdown.")
@click.option("--slow", is_flag=True, help="Also run cases that take minutes on a real clock.")
@click.option(
    "--no-admin",
    is_flag=True,
    help="Only send and receive messages; make no administrative requests.",
)
@click.option(
    "--beside",
    type=click.Path(path_type=Path),
    multiple=True,
    help="An --out folder of another target, to add as a column to the HTML matrix. May be repeated.",
)
@click.option("--expect", type=click.Path(path_type=Path), help="TOML file of expected failures.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for JUnit, JSON, HTML, Markdown and a badge.",
)
@machine_options
def conform(defect: str, **options: Any) -> int:
    """Test a target against the numbered clauses of the contract, and print which of them it meets.

    \b
    Example:
      staticfire conform
      staticfire conform --name-server 10.0.0.1:9876 --profile broker-core --out report
      staticfire conform --environment processes --select 'RMQ-SND-*' --select level:must
      staticfire conform --list --select area:TXN
      staticfire conform --client ./my_client
      staticfire conform --name-server 10.0.0.2:9876 --out mine --beside theirs

    The topics and groups of the command have this run's prefix. The command removes them, and touches no others.

    Exit status: 0 every MUST and SHOULD that ran passed, 1 some failed, 2 too few ran to prove anything,
    254 bad arguments, 255 harness error or interrupted; the finished cases are still reported.
    """
    use_defect(defect)
    from staticfire.harness.cli.conform import session

    return session.conform(session.ConformOptions(defect=defect, **options))
