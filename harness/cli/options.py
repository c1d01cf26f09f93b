"""The options that describe a campaign, shared by the commands that run one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from staticfire.faults.defects import DefectError, defect_named
from staticfire.faults.errors import FaultError
from staticfire.faults.model.capabilities import OWN_BROKERS, OWN_NEED
from staticfire.faults.plans.catalogue import FAULTS
from staticfire.harness.campaign.campaign import (
    DEFAULT_SYSTEM,
    ENVIRONMENTS,
    FLUSH_MODES,
    MODES,
    REPLICATION_MODES,
    TARGETS,
    TLS_MODES,
    Campaign,
    CampaignError,
    OneOf,
)
from staticfire.harness.campaign.file import load_options, typed_options
from staticfire.harness.cli.client_command import check_command
from staticfire.harness.cli.completion import (
    CLIENTS,
    all_or_workloads,
    complete_campaign,
    defects,
    faults,
    one_of,
    policies,
    some_of,
    systems,
)
from staticfire.harness.cli.extras import need_environment, need_extra
from staticfire.harness.cli.status import BadInput, HarnessError, turn_errors
from staticfire.harness.clients.client_command import is_command
from staticfire.harness.clients.consumer_kinds import CONSUMER_KINDS
from staticfire.harness.draws.campaign import draw_faults
from staticfire.harness.machines.errors import EnvironmentFailed
from staticfire.harness.machines.options import (
    MachineOptionError,
    MachineOptions,
    check_hosts,
)
from staticfire.harness.systems.errors import SystemRefused
from staticfire.harness.systems.registry import name_module, system_named, system_of

ALL = "all"
OWN_POLICIES = "only our own brokers can be given single behaviours of RocketMQ 4.9.8"
Command = TypeVar("Command", bound=Callable[..., Any])


def _named_by_user(_context: click.Context, _option: click.Parameter, value: str | None) -> object:
    if value is not None:
        name_module(value)
    return value


def system_option(*, expose: bool = True) -> Callable[[Command], Command]:
    """`--system`; commands that read a recorded run take it only to allow the import of its module."""
    return click.option(
        "--system",
        metavar="NAME|MODULE:ATTRIBUTE",
        shell_complete=one_of(systems),
        callback=_named_by_user,
        expose_value=expose,
        help="Message queue under test: rocketmq (default), an installed one, or module:attribute "
        "(docs/systems.md).",
    )


_OPTIONS = (
    click.option(
        "--campaign",
        metavar="NAME|FILE",
        shell_complete=complete_campaign,
        help="Options from a named campaign or a TOML file.",
    ),
    system_option(),
    click.option(
        "--workload",
        shell_complete=some_of(all_or_workloads),
        help="Load of the run and the property that it tests; see `staticfire workloads`.",
    ),
    click.option(
        "--flush",
        shell_complete=one_of(FLUSH_MODES),
        help=f"Flush mode: {' or '.join(FLUSH_MODES)}.",
    ),
    click.option(
        "--replication",
        shell_complete=one_of(REPLICATION_MODES),
        help=f"Replication mode: {', '.join(REPLICATION_MODES)}.",
    ),
    click.option(
        "--mode",
        shell_complete=one_of(MODES),
        help=f"{' or '.join(MODES)}: keep every promise, or behave as RocketMQ 4.9.8 does. For another target, the "
        "mode only chooses the promises.",
    ),
    click.option(
        "--environment",
        shell_complete=one_of(ENVIRONMENTS),
        help=f"Where nodes run: {', '.join(ENVIRONMENTS)}. Default: simulation.",
    ),
    click.option(
        "--target",
        shell_complete=one_of(TARGETS),
        help=f"Target: {', '.join(TARGETS)}. apache is Apache RocketMQ in --home. Default: own.",
    ),
    click.option(
        "--client",
        metavar="own|cpp|COMMAND",
        shell_complete=one_of(CLIENTS),
        help="Producers and consumers: own (default), cpp (RocketMQ's C++ library), or a COMMAND that starts one when "
        "followed by producer or consumer (docs/client-protocol.md).",
    ),
    click.option(
        "--policies",
        shell_complete=some_of(policies),
        metavar="NAME[,NAME...]",
        help="In faithful mode: only these behaviours of docs/faithful.md, or all.",
    ),
    click.option(
        "--name-servers", "--coordinators", "coordinators", type=int, help="Number of name servers."
    ),
    click.option("--masters", "--leaders", "leaders", type=int, help="Number of masters."),
    click.option(
        "--slaves",
        "--followers",
        "followers",
        metavar="N[,N...]",
        help="Number of slaves of each master, such as 2,1.",
    ),
    click.option("--producers", type=int, help="Number of producers."),
    click.option("--consumers", type=int, help="Number of members of the consumer group."),
    click.option(
        "--consumer-kind",
        shell_complete=one_of(CONSUMER_KINDS),
        help=f"Kind of the group's members: {', '.join(CONSUMER_KINDS)}.",
    ),
    click.option(
        "--batch-messages",
        metavar="N[,N]",
        help="Minimum and maximum messages in a batch. With --campaign backlog, this sets the size of the backlog.",
    ),
    click.option(
        "--faults",
        shell_complete=some_of(faults),
        metavar="KIND[,KIND...]",
        help="Kinds of fault to inject, none, or all that are available; see `staticfire faults`.",
    ),
    click.option("--time", "time_s", type=float, metavar="SECONDS", help="Duration of the load."),
    click.option(
        "--broker-property",
        "broker_properties",
        metavar="NAME=VALUE",
        multiple=True,
        help="Broker property, named as in a .properties file, for every broker. May be repeated.",
    ),
    click.option(
        "--acl/--no-acl",
        default=None,
        help="Brokers check signatures and rights, and clients sign all requests. Default: on for one seed in ten.",
    ),
    click.option(
        "--tls",
        shell_complete=one_of(TLS_MODES),
        help=f"{', '.join(TLS_MODES)}: no nodes, half of the nodes or all nodes use TLS. Default: in the simulation, "
        "on for one seed in ten.",
    ),
    click.option(
        "--defect",
        shell_complete=one_of(defects),
        help="Plant a bug first: one of `staticfire bugs`, or a file NAME.diff.",
    ),
)


runs_option = click.option(
    "--runs",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Folder for the runs.",
)


def campaign_options(command: Command) -> Command:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def given_options(
    *,
    campaign: str | None,
    followers: str | None,
    leaders: int | None,
    faults: str | None,
    policies: str | None = None,
    batch_messages: str | None = None,
    broker_properties: tuple[str, ...] = (),
    **plain: Any,
) -> dict[str, Any]:
    """Return the options that the user fixed; the seed draws the rest. The command line wins over the campaign file.

    A defect adds its recipe unless the user names a campaign.

    Raises BadInput.
    """
    with turn_errors(CampaignError, DefectError, FaultError, into=BadInput):
        given = _base_options(campaign, plain.get("defect"))
    given.update({name: value for name, value in plain.items() if value is not None})
    if faults is not None:
        given["faults"] = _kinds(faults)
        given.pop("plan", None)
    if policies is not None:
        given["policies"] = () if policies == "all" else tuple(policies.split(","))
    if batch_messages is not None:
        given["batch_messages"] = _fewest_and_most(batch_messages)
    if broker_properties:
        known = dict(given.get("broker_properties", ()))
        known.update(map(_name_and_value, broker_properties))
        given["broker_properties"] = tuple(sorted(known.items()))
    _set_followers(given, leaders, followers)
    return given


def said_options(options: Mapping[str, object]) -> set[str]:
    """Return the options on the command line."""
    return {name for name, value in options.items() if value not in (None, ())}


def _fewest_and_most(text: str) -> tuple[int, int]:
    fewest, _, most = text.partition(",")
    try:
        return int(fewest), int(most or fewest)
    except ValueError as error:
        raise BadInput(
            f"--batch-messages is {text!r}; allowed: one or two whole numbers, such as 2,5"
        ) from error


def _kinds(text: str) -> tuple[str, ...]:
    if text == ALL:
        return (ALL,)
    return () if text == "none" else tuple(text.split(","))


def choose_faults(seed: int, given: dict[str, Any], provider: MachineOptions) -> dict[str, str]:
    """Restrict the faults to kinds that the system declares and the environment can carry out.

    If the seed draws the kinds, or for `all`, other kinds are removed and returned with the reasons. If the user names
    one, raises BadInput. Policies, which only our brokers have, are also removed and returned for another target.
    """
    has_tls = given.get("tls", TLS_MODES[0]) != TLS_MODES[0] or bool(given.get("replica_tls"))
    missing = missing_in(given.get("environment", "simulation"), provider, has_tls=has_tls)
    outside = _kinds_outside(given.get("system", DEFAULT_SYSTEM))
    missing = {**missing, **outside}
    if given.get("target", "own") != "own":
        missing = {**_kinds_that_need_our_brokers(), **missing}
    available = tuple(kind for kind in FAULTS if kind not in missing)
    named = given.get("faults")
    are_drawn = "plan" not in given and (
        named is None or named == (ALL,) or isinstance(named, OneOf)
    )
    if isinstance(named, OneOf):
        named = OneOf(tuple(available if kinds == (ALL,) else kinds for kinds in named.values))
    if named == (ALL,):
        given["faults"] = available
    elif named is None:
        given["faults"] = draw_faults(seed, available)
    else:
        given["faults"] = _available(named, lambda kinds: kinds, missing)
    if "plan" in given:
        given["plan"] = _available(
            given["plan"], lambda plan: [planned.kind for planned in plan], missing
        )
    shown = {kind: why for kind, why in missing.items() if are_drawn and kind not in outside}
    return {**shown, **_leave_out_policies(given)}


def _leave_out_policies(given: dict[str, Any]) -> dict[str, str]:
    """Remove policies from the options of a campaign for another target; return them, each with the reason."""
    if given.get("target", "own") == "own" and given.get("environment") != "address":
        return {}
    return {f"policy {name}": OWN_POLICIES for name in given.pop("policies", ())}


def _kinds_outside(system: str) -> dict[str, str]:
    """Return the kinds that cannot strike the system, each with the reason. Raises BadInput for an unknown system."""
    with turn_errors(SystemRefused, into=BadInput):
        possible = system_named(system).faults
    return {
        kind: f"the system {system} does not declare it" for kind in FAULTS if kind not in possible
    }


def _kinds_that_need_our_brokers() -> dict[str, str]:
    return {name: OWN_BROKERS for name, fault in FAULTS.items() if OWN_NEED in fault.needs}


def _available(
    value: Any, kinds_of: Callable[[Any], Iterable[str]], missing: Mapping[str, str]
) -> Any:
    """Return the value or, of several between which the seed decides, those that can be carried out here.

    Raises BadInput if the value cannot be carried out, or none of several.
    """
    if not isinstance(value, OneOf):
        _check_available(kinds_of(value), missing)
        return value
    possible = tuple(one for one in value.values if missing.keys().isdisjoint(kinds_of(one)))
    if not possible:
        _check_available((kind for one in value.values for kind in kinds_of(one)), missing)
    return OneOf(possible)


def _check_available(kinds: Iterable[str], missing: Mapping[str, str]) -> None:
    for kind in kinds:
        if kind in missing:
            raise BadInput(f"the fault {kind} is not available here: {missing[kind]}")


def missing_in(
    environment: Any, provider: MachineOptions, *, has_tls: bool = False
) -> dict[str, str]:
    """Return the kinds of fault that the environment cannot carry out, each with the reason.

    Raises BadInput if its library is not installed, HarnessError if its hosts cannot be checked.
    """
    if environment == "simulation" or environment not in ENVIRONMENTS:
        return {}
    need_environment(environment)
    from staticfire.harness.environments.real.catalogue import (
        lacks_with_tls,
        make_provider,
        missing_faults,
    )

    with turn_errors(EnvironmentFailed, into=HarnessError):
        lacks = make_provider(environment, provider).lacks
        if environment == "ssh" and provider.hosts:
            lacks = _lacks_on_hosts(provider)
        return missing_faults(lacks_with_tls(environment, lacks) if has_tls else lacks)


def _lacks_on_hosts(provider: MachineOptions) -> dict[str, str]:
    """Raises BadInput for a host named twice, EnvironmentFailed for one that does not let us in."""
    from staticfire.harness.environments.real.ssh.survey import lacks_on

    with turn_errors(MachineOptionError, into=BadInput):
        check_hosts(provider.hosts, 0)
    return asyncio.run(lacks_on(provider))


def _name_and_value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise BadInput(f"--broker-property is {text!r}; allowed: NAME=VALUE")
    return name.strip(), value.strip()


def check_nodes(campaign: Campaign, provider: MachineOptions) -> None:
    """Check that the nodes can have what the campaign says. Any defect must be in use already.

    Raises:
        CampaignError: nodes cannot have the properties.
        BadInput: there are too few hosts, or a library is not installed.
        BadInput, HarnessError: the target is not at the given place, or this machine cannot run it.
    """
    need_environment(campaign.environment)
    if campaign.environment == "ssh":
        with turn_errors(MachineOptionError, into=BadInput):
            check_hosts(provider.hosts, len(campaign.topology().servers))
    _check_client(campaign)
    _check_certificate(campaign)

    try:
        system_of(campaign).check_machines(campaign, provider)
    except MachineOptionError as error:
        raise BadInput(str(error)) from error
    except EnvironmentFailed as error:
        raise HarnessError(str(error)) from error


def _check_certificate(campaign: Campaign) -> None:
    """Raises BadInput or HarnessError if a run with TLS on machines cannot get a certificate."""
    is_plain = campaign.tls == TLS_MODES[0] and not campaign.replica_tls
    if is_plain or campaign.environment == "simulation":
        return
    need_extra("tls", "replica_tls" if campaign.replica_tls else f"--tls {campaign.tls}")
    from staticfire.system_under_test.configuration.real_tls import make_test_certificate
    from staticfire.system_under_test.runtime.env import TlsError

    with turn_errors(TlsError, into=HarnessError):
        make_test_certificate()


def _check_client(campaign: Campaign) -> None:
    from staticfire.harness.machines import cpp_library

    if is_command(campaign.client):
        check_command(campaign.client)
    if campaign.client == "cpp" and campaign.environment in cpp_library.HERE:
        need_extra("cpp-client", "--client cpp")
        with turn_errors(EnvironmentFailed, into=HarnessError):
            cpp_library.check_here()


def _base_options(campaign: str | None, defect: str | None) -> dict[str, Any]:
    """Return the options of the named campaign or else of the defect's own recipe."""
    if campaign is not None:
        return load_options(campaign)
    if not defect:
        return {}
    recipe = defect_named(defect)
    base = load_options(recipe.base) if recipe.base else {}
    return {**base, **typed_options(recipe.campaign, f"the recipe of defect {defect}")}


def _set_followers(given: dict[str, Any], leaders: int | None, followers: str | None) -> None:
    """Read `--masters 2 --slaves 2,1`: a number for each master, or one for all."""
    if leaders is None and followers is None:
        _match_replication(given)
        return
    counts = _slave_counts(followers) if followers is not None else None
    if counts is None:
        counts = (0 if given.get("replication") == "none" else 1,)
    if leaders is not None and not 1 <= leaders <= 9:
        raise BadInput(f"masters is {leaders}; allowed: 1 to 9")
    if leaders is not None and len(counts) == 1:
        counts = counts * leaders
    if leaders is not None and len(counts) != leaders:
        raise BadInput(
            f"--slaves names {len(counts)} masters, --masters says {leaders}; give as many"
        )
    given["followers"] = counts
    given.pop("plan", None)


def _match_replication(given: dict[str, Any]) -> None:
    """Apply `--replication none` to a campaign file with slaves: the same masters without slaves."""
    if given.get("replication") == "none" and "followers" in given:
        followers = given["followers"]
        leaders = len(followers.values[0] if isinstance(followers, OneOf) else followers)
        given["followers"] = (0,) * leaders


def _slave_counts(slaves: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in slaves.split(","))
    except ValueError as error:
        raise BadInput(
            f"--slaves is {slaves!r}; allowed: whole numbers with commas, such as 2,1"
        ) from error
