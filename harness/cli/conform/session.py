"""Carries out `staticfire conform`, once a defect is planted, so that these imports are of the patched system."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

from staticfire.harness.campaign.campaign import MODES, CampaignError
from staticfire.harness.cli.conform.client_option import client_under_test
from staticfire.harness.cli.options import check_nodes
from staticfire.harness.cli.progress import working
from staticfire.harness.cli.status import (
    EXIT_HARNESS_ERROR,
    EXIT_INVALID,
    EXIT_UNKNOWN,
    EXIT_VALID,
    BadInput,
    HarnessError,
    turn_errors,
)
from staticfire.harness.cli.suggestions import did_you_mean
from staticfire.harness.conformance.case import cases
from staticfire.harness.conformance.clause import Clause
from staticfire.harness.conformance.clients.processes import ProcessClients
from staticfire.harness.conformance.expectations import (
    Expectation,
    ExpectationError,
    apply_expectations,
    read_expectations,
)
from staticfire.harness.conformance.outputs.about import About
from staticfire.harness.conformance.outputs.contract_page import contract_page
from staticfire.harness.conformance.outputs.files import write_outputs
from staticfire.harness.conformance.outputs.json_input import ReportError, read_report
from staticfire.harness.conformance.outputs.markdown import in_words
from staticfire.harness.conformance.result import CaseResult, Outcome
from staticfire.harness.conformance.sites.site import Site
from staticfire.harness.conformance.sites.suite import PROFILES, SuiteResult, choose, run_suite
from staticfire.harness.console.terminal import is_terminal
from staticfire.harness.interrupts import deaf
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.rocketmq.limits import PLACES
from staticfire.harness.truncated_repr import printable
from staticfire.system_under_test.remoting.address import parse_address

ENVIRONMENTS = (
    "simulation",
    "loopback",
    "processes",
    "namespaces",
    "docker",
    "ssh",
    "address",
)
LIST_WIDTH = 1000  # columns, where there is no terminal: a line a clause, for scripts
TARGETS = ("own", "apache")
_PREFIX = re.compile("[A-Za-z0-9_-]{1,40}")
_STYLES = {
    Outcome.PASSED: "green",
    Outcome.FAILED: "bold red",
    Outcome.ERROR: "bold magenta",
    Outcome.QUIRK: "yellow",
    Outcome.EXPECTED: "yellow",
    Outcome.NOT_RUN: "dim",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformOptions:
    """The options as the user typed them."""

    environment: str | None
    mode: str
    target: str
    defect: str
    client: str | None
    profile: str | None
    patterns: tuple[str, ...]
    only_list: bool
    only_contract: bool
    slow: bool
    no_admin: bool
    expect: Path | None
    out: Path | None
    beside: tuple[Path, ...]
    provider: MachineOptions


def conform(options: ConformOptions) -> int:
    """Run the suite and return the exit status. Raises BadInput, HarnessError."""
    profile = options.profile or ("all" if options.client is None else "client")
    clauses = _clauses(profile, options.patterns)
    console = Console(highlight=False, width=None if is_terminal() else LIST_WIDTH)
    if options.only_contract:
        print(contract_page(), end="")
        return EXIT_VALID
    if options.only_list:
        _print_list(console, clauses)
        return EXIT_VALID
    expectations = _expectations(options.expect)
    others = _others(options)
    if options.out is not None:
        _check_out(options.out)
    with turn_errors(CampaignError, into=BadInput):
        result = _run(_site(options), clauses, options.slow, expectations, console)
    with deaf() if result.is_interrupted else nullcontext():
        _finish(console, result)
        if options.out is not None:
            _write(result, options.out, profile, others)
            console.print(f"report: {options.out}", soft_wrap=True)
    if result.is_interrupted or (result.stopped and not result.broken):
        raise HarnessError(result.stopped)
    return _status(result)


def _clauses(profile: str, patterns: tuple[str, ...]) -> tuple[Clause, ...]:
    """Raises BadInput."""
    if profile not in PROFILES:
        raise BadInput(f"--profile is {profile!r}; allowed: {', '.join(PROFILES)}")
    single = [one for pattern in patterns for one in pattern.split(",")]
    try:
        chosen = choose(profile, single)
    except ValueError:
        raise BadInput(
            f"--select is {','.join(patterns)!r}; allowed: ids such as RMQ-TXN-*, area:SND, level:must, needs:fault"
        ) from None
    if not chosen:
        ids = [clause.id for clause in choose(profile, ())]
        suggested = next(filter(None, (did_you_mean(one, ids) for one in single)), "")
        raise BadInput(
            f"--select {','.join(patterns)!r} picks no clause of profile {profile}"
            + (f"; {suggested}" if suggested else "")
        )
    return chosen


def _expectations(path: Path | None) -> dict[str, Expectation]:
    """Raises BadInput."""
    try:
        return {} if path is None else read_expectations(path)
    except ExpectationError as error:
        raise BadInput(f"--expect: {error}") from error


def _check_out(out: Path) -> None:
    """Check, before the work, that --out can be written. Raises BadInput."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"--out {out} cannot be written: {error.strerror}") from error
    if not os.access(out, os.W_OK):
        raise BadInput(f"--out {out} cannot be written: Permission denied")


def _site(options: ConformOptions) -> Site:
    """Raises BadInput, CampaignError."""
    provider = options.provider
    if options.mode not in MODES:
        raise BadInput(f"--mode is {options.mode!r}; allowed: {', '.join(MODES)}")
    environment = options.environment or _default_environment(options)
    if options.target not in TARGETS:
        raise BadInput(f"--target is {options.target!r}; allowed: {', '.join(TARGETS)}")
    if environment not in ENVIRONMENTS:
        raise BadInput(f"--environment is {environment!r}; allowed: {', '.join(ENVIRONMENTS)}")
    if environment in ("address", "loopback", "simulation") and options.target != "own":
        raise BadInput(
            f"--target {options.target} is started on machines; --environment is {environment}, "
            f"allowed: {', '.join(PLACES[options.target])}"
        )
    if environment == "address":
        if options.mode != "hardened" or options.defect:
            raise BadInput(
                "--mode and --defect are of our own cluster; --name-server is an external one"
            )
        return _address_site(provider, options.no_admin, client_under_test(options.client))
    if provider.name_servers:
        raise BadInput("--name-server is only for --environment address")
    if options.no_admin:
        raise BadInput("--no-admin is only for --environment address")
    mode = (
        "faithful" if options.target == "apache" else options.mode
    )  # the mode by which it is judged
    campaign = {"mode": mode, "defect": options.defect, "target": options.target}
    if environment == "loopback":
        return _loopback_site(options)
    if options.client not in (None, "own") or (options.client and environment != "simulation"):
        raise BadInput(
            f"--client {options.client} is judged on loopback or at an address; --environment is {environment}"
        )
    if environment == "simulation":
        from staticfire.harness.conformance.sites.simulated import SimulatedSite

        return SimulatedSite(options=campaign)
    from staticfire.harness.conformance.sites.real import RealSite

    site = RealSite(environment, options=campaign, machine_options=provider)
    check_nodes(site.campaign, provider)
    return site


def _default_environment(options: ConformOptions) -> str:
    if options.provider.name_servers:
        return "address"
    return "simulation" if options.client in (None, "own") else "loopback"


def _loopback_site(options: ConformOptions) -> Site:
    """Raises BadInput."""
    from staticfire.harness.conformance.sites.loopback import LoopbackSite

    clients = client_under_test("own" if options.client is None else options.client)
    assert clients is not None, "there is a name"
    return LoopbackSite(clients, faithful=options.mode == "faithful")


def _address_site(provider: MachineOptions, no_admin: bool, clients: ProcessClients | None) -> Site:
    """Raises BadInput."""
    from staticfire.harness.conformance.sites.address import AddressSite

    if not provider.name_servers:
        raise BadInput("--environment address needs --name-server HOST:PORT[,HOST:PORT...]")
    for address in provider.name_servers:
        try:
            parse_address(address)
        except ValueError as error:
            raise BadInput(f"--name-server is {address!r}: {error}") from error
    prefix = os.environ.get("STATICFIRE_TOPIC_PREFIX", f"staticfire-{secrets.token_hex(4)}")
    if _PREFIX.fullmatch(prefix) is None:
        raise BadInput(
            f"STATICFIRE_TOPIC_PREFIX is {prefix!r:.80}; allowed: 1 to 40 letters, digits, - and _"
        )
    return AddressSite(
        provider.name_servers, prefix=prefix, may_administrate=not no_admin, clients=clients
    )


def _run(
    site: Site,
    clauses: tuple[Clause, ...],
    slow: bool,
    expectations: dict[str, Expectation],
    console: Console,
) -> SuiteResult:
    """Run the suite: print a line for each case that did not pass, and show the count on stderr."""
    console.print(f"target: {site.name}; {len(clauses)} clauses", soft_wrap=True)
    today, done = date.today(), 0
    with working("conform", total=len(clauses), unit="clauses") as progress:

        def expected(result: CaseResult) -> CaseResult:
            return apply_expectations(result, expectations, today)

        def take(result: CaseResult) -> None:
            nonlocal done
            done += 1
            if result.outcome not in (Outcome.PASSED, Outcome.NOT_RUN):
                with progress.aside():
                    _print_result(console, result)
            progress.update(done, details=result.clause.id)

        return run_suite(site, clauses, slow=slow, expected=expected, on_result=take)


def _print_result(console: Console, result: CaseResult) -> None:
    style = _STYLES[result.outcome]
    head = f"{result.clause.id} {result.outcome}"
    console.print(
        f"[{style}]{head}[/] ({result.clause.level}) {result.clause.title}", soft_wrap=True
    )
    lines = map(printable, f"    {result.reason}".split("\n"))
    console.print("\n".join(lines), markup=False, soft_wrap=True)


def _finish(console: Console, result: SuiteResult) -> None:
    reasons: dict[str, int] = {}
    for one in result.results:
        if one.outcome is Outcome.NOT_RUN:
            reasons[one.reason] = reasons.get(one.reason, 0) + 1
    for reason, count in sorted(reasons.items(), key=lambda item: -item[1]):
        console.print(f"not run: {count} ({printable(reason)})", markup=False, soft_wrap=True)
    console.print(in_words(result.counts()))
    if result.is_below_floor:
        console.print(
            f"{result.ran} cases ran; the floor is {result.floor}: this proves nothing",
            soft_wrap=True,
        )


def _print_list(console: Console, clauses: tuple[Clause, ...]) -> None:
    table = Table(
        "id", "level", "needs", "case", Column("title", overflow="fold"), box=None, pad_edge=False
    )
    for clause in clauses:
        has_case = "yes" if clause.id in cases() else "no"
        table.add_row(
            clause.id, clause.level.value, " ".join(sorted(clause.needs)), has_case, clause.title
        )
    console.print(table)
    console.print(
        f"{len(clauses)} clauses, {sum(one.id in cases() for one in clauses)} with a case"
    )


def _others(options: ConformOptions) -> list[tuple[SuiteResult, About]]:
    """Read the results of other targets. Raises BadInput."""
    if options.beside and options.out is None:
        raise BadInput("--beside needs --out DIR, where the matrix is written")
    try:
        return [read_report(folder) for folder in options.beside]
    except ReportError as error:
        raise BadInput(f"--beside: {error}") from error


def _write(
    result: SuiteResult, out: Path, profile: str, others: Sequence[tuple[SuiteResult, About]]
) -> None:
    """Raises HarnessError."""
    try:
        write_outputs(result, out, profile=profile, command=_command(), others=others)
    except OSError as error:
        raise HarnessError(f"--out {out} cannot be written: {error.strerror}") from error


def _command() -> str:
    """Return the typed command without its selection, to which the report adds a clause."""
    kept: list[str] = []
    skip = False
    for argument in sys.argv[1:]:
        if skip:
            skip = False
        elif argument in ("--select", "--out"):
            skip = True
        elif not argument.startswith(("--select=", "--out=")):
            kept.append(argument)
    return f"staticfire {shlex.join(kept)}"


def _status(result: SuiteResult) -> int:
    if result.errors:
        return EXIT_HARNESS_ERROR
    if result.broken:
        return EXIT_INVALID
    return EXIT_UNKNOWN if result.is_below_floor else EXIT_VALID
