"""Builds the commands of `staticfire admin`: common options, client, answer and errors."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from staticfire.harness.cli.admin.acting import (
    Consent,
    Effect,
    ask_consent,
    check_consent,
    in_words,
    target_of,
)
from staticfire.harness.cli.admin.answers import Answer, Record, print_answer
from staticfire.harness.cli.admin.identity import IDENTITY, take_credentials, take_tls
from staticfire.harness.cli.status import BadInput, HarnessError, turn_errors
from staticfire.harness.truncated_repr import printable
from staticfire.system_under_test.admin import AdminClient, AdminError
from staticfire.system_under_test.remoting import parse_address
from staticfire.system_under_test.runtime.real_env import JsonLinesLog, RealClock, make_env

DEFAULT_NAME_SERVER = "127.0.0.1:9876"
TIMEOUT_MAX_S = 600

Work = Callable[..., Coroutine[object, object, Answer]]
Values = dict[str, Any]  # of the options of one command
Connector = Callable[[], AbstractAsyncContextManager[AdminClient]]
Look = Callable[[AdminClient, Values], Awaitable[list[str]]]
Found = TypeVar("Found")
NOTHING = Record({"done": "nothing, this was a dry run"})


ALIASES = {"deleteaccessconfig": "deleteAclConfig"}  # mqadmin's second names, in lower case


class AdminGroup(click.Group):
    """Finds commands under both of mqadmin's names. As in mqadmin, the case of letters does not matter."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            return found
        wanted = cmd_name.lower()
        wanted = ALIASES.get(wanted, wanted).lower()
        same = [name for name in self.commands if name.lower() == wanted]
        return self.commands[same[0]] if same else None


def admin_command(
    name: str,
    summary: str,
    example: str,
    *options: Callable[[Any], Any],
    effect: Effect | Callable[[Values], Effect] = Effect.READS,
    check: Callable[[Values], object] | None = None,
    overwrites: Look | None = None,
) -> Callable[[Work], click.Command]:
    """Make a click command of `async def work(admin, ...) -> Answer`. Its docstring, if any, follows the summary.

    Args:
        effect: the command's effect on a cluster, or a function of its options that returns it.
        check: raises BadInput for options that are not allowed, before a destructive command asks.
        overwrites: describes existing things that would change, a clause each. If there are any, a command that
            otherwise only adds is destructive.
    """
    may_destroy = effect is Effect.DESTROYS or callable(effect) or overwrites is not None

    def make(work: Work) -> click.Command:
        def callback(
            name_servers: tuple[str, ...], timeout_s: float, as_json: bool, **values: Any
        ) -> None:
            consent = None
            if may_destroy:
                consent = Consent(values.pop("is_sure"), values.pop("is_dry_run"))
            connect = _connector(name_servers, timeout_s, values)
            if check is not None:
                check(values)
            acts = effect(values) if callable(effect) else effect
            look = overwrites if acts is Effect.CHANGES else None
            is_ready = _prepare(name, acts, consent, connect, values, look)
            answer = _run(connect, lambda admin: work(admin, **values)) if is_ready else NOTHING
            print_answer(answer, as_json=as_json)

        details = f"\n\n{inspect.cleandoc(work.__doc__)}" if work.__doc__ else ""
        callback.__doc__ = (
            f"{summary}{details}\n\n\b\nExample:\n  staticfire admin {name} {example}\n\n"
            "Exit status: 0 done, 254 bad arguments, 255 the cluster refused or did not answer."
        )
        decorated: Any = callback
        for option in reversed((*options, *(CONSENT if may_destroy else ()), *COMMON)):
            decorated = option(decorated)
        return click.command(name=name, short_help=summary)(decorated)

    return make


def _prepare(
    name: str,
    effect: Effect,
    consent: Consent | None,
    connect: Connector,
    values: Values,
    look: Look | None,
) -> bool:
    """Print on standard error where the command will act, and ask for consent; return False for a dry run.

    Raises BadInput, HarnessError.
    """
    if effect is Effect.READS:
        return True
    has_address, changes = _has_address(values), list[str]()
    if look is not None and not (consent is not None and consent.is_given and has_address):
        found = look
        changes = _run(connect, lambda admin: found(admin, values))
    asks = consent if effect is Effect.DESTROYS or changes else None
    if asks is not None:
        check_consent(name, asks, has_address=has_address, changes=changes)
    where = _run(connect, lambda admin: target_of(admin, values))
    print(f"staticfire: on {where}", file=sys.stderr)
    for change in changes:
        print(f"staticfire: {printable(change)}", file=sys.stderr)
    if consent is not None and consent.is_dry_run:
        print(f"staticfire: it would be {name} {in_words(values)}", file=sys.stderr)
        return False
    if asks is not None and not asks.is_given:
        ask_consent(name, values)
    return True


def _has_address(values: Values) -> bool:
    source = click.get_current_context().get_parameter_source("name_servers")
    return values.get("broker") is not None or source is not ParameterSource.DEFAULT


def _connector(name_servers: tuple[str, ...], timeout_s: float, values: Values) -> Connector:
    """Take the options of the administrator's identity out of `values`. Raises BadInput."""
    credentials, tls = take_credentials(values), take_tls(values)

    @asynccontextmanager
    async def connect() -> AsyncIterator[AdminClient]:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            env = make_env("admin", tls)
            env = replace(env, log=JsonLinesLog("admin", RealClock(), nowhere))
            async with AdminClient(
                env, name_servers, timeout_s=timeout_s, credentials=credentials
            ) as admin:
                yield admin

    return connect


def _run(connect: Connector, work: Callable[[AdminClient], Awaitable[Found]]) -> Found:
    async def run() -> Found:
        async with connect() as admin:
            return await work(admin)

    with turn_errors(AdminError, into=HarnessError):
        return asyncio.run(run())


def done(text: str, **values: object) -> Record:
    """Return the answer of a command that prints no table."""
    return Record({"done": text, **values})


def one_target(broker: str | None, cluster: str | None) -> None:
    """Raises BadInput unless exactly one is given."""
    if (broker is None) == (cluster is None):
        given = "neither is" if broker is None else "both are"
        raise BadInput(f"{given} given; allowed: either -b ADDRESS or -c CLUSTER")


def check_target(values: Values) -> None:
    """Raises BadInput unless the options name either a broker or a cluster."""
    one_target(values["broker"], values["cluster"])


async def targets(admin: AdminClient, broker: str | None, cluster: str | None) -> list[str]:
    """Return the addresses of the broker, or of the cluster's masters. Raises AdminError."""
    return list((await named_targets(admin, broker, cluster)).values())


async def named_targets(
    admin: AdminClient, broker: str | None, cluster: str | None
) -> dict[str, str]:
    """Return the same by name. A broker given by its address has the address as its name. Raises AdminError."""
    return {broker: broker} if broker is not None else await admin.masters(cluster)


# Options


def _text(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    if not value or "\0" in value or not _is_unicode(value):
        raise click.BadParameter(f"{value!r} is no text", param=parameter)
    return value


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _address(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        _check_address(parameter, value)
    return value


def _addresses(_: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    parts: Sequence[str] = [part.strip() for part in value.replace(",", ";").split(";")]
    found = tuple(part for part in parts if part)
    if not found:
        raise click.BadParameter(
            f"{value!r} holds no address; allowed: host:port;host:port", param=parameter
        )
    for part in found:
        _check_address(parameter, part)
    return found


def _check_address(parameter: click.Parameter, value: str) -> None:
    try:
        host, port = parse_address(value)
        host.encode("idna")
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from None
    if port == 0:
        raise click.BadParameter(
            f"address {value!r} has port 0; allowed: 1 to 65535", param=parameter
        )


CONSENT = (
    click.option("--yes", "is_sure", is_flag=True, help="Do not ask for confirmation."),
    click.option(
        "--dry-run",
        "is_dry_run",
        is_flag=True,
        help="Print the target cluster, and change nothing.",
    ),
)

COMMON = (
    click.option(
        "-n",
        "--namesrvAddr",
        "name_servers",
        envvar="NAMESRV_ADDR",
        default=DEFAULT_NAME_SERVER,
        show_default=True,
        callback=_addresses,
        metavar="A;B",
        help="Name servers. NAMESRV_ADDR also sets them.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table."),
    click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(0.01, TIMEOUT_MAX_S),
        default=5.0,
        show_default=True,
        metavar="SECONDS",
        help="Time to wait for an answer.",
    ),
    *IDENTITY,
)


def text_option(
    short: str,
    long: str,
    name: str,
    help: str,
    *,
    required: bool = False,
    default: str | None = None,
) -> Callable[[Any], Any]:
    """Make an option whose value is any non-empty text."""
    given: dict[str, Any] = (
        {} if default is None else {"default": default}
    )  # Click takes a None for a value
    return click.option(short, long, name, required=required, callback=_text, help=help, **given)


def address_option(
    help: str, *, required: bool = False, long: str = "--brokerAddr"
) -> Callable[[Any], Any]:
    """Make the option -b with the address of a broker; mqadmin gives some commands another long name."""
    return click.option(
        "-b",
        long,
        "broker",
        required=required,
        callback=_address,
        metavar="ADDRESS",
        help=help,
    )


def flag_option(
    short: str, long: str, name: str, help: str, *, default: bool
) -> Callable[[Any], Any]:
    """Make an option with mqadmin's form of yes and no: `-o true`."""
    return click.option(
        short, long, name, type=click.BOOL, default=default, show_default=True, help=help
    )


def ignored_option(short: str, long: str, *, is_flag: bool = False) -> Callable[[Any], Any]:
    """Make an option that scripts for mqadmin may give and that has no effect here."""
    return click.option(
        short,
        long,
        is_flag=is_flag,
        expose_value=False,
        help="Ignored; for compatibility with mqadmin.",
    )


def int_option(
    short: str,
    long: str,
    name: str,
    help: str,
    *,
    low: int = 0,
    high: int = (1 << 63) - 1,
    default: int | None = None,
    required: bool = False,
) -> Callable[[Any], Any]:
    given: dict[str, Any] = {} if default is None else {"default": default}
    return click.option(
        short,
        long,
        name,
        type=click.IntRange(low, high),
        show_default=default is not None,
        required=required,
        help=help,
        **given,
    )


TOPIC = text_option("-t", "--topic", "topic", "Topic.", required=True)
GROUP = text_option("-g", "--groupName", "group", "Group.", required=True)
BROKER = address_option("Address of one broker.")
CLUSTER = text_option("-c", "--clusterName", "cluster", "All masters of this cluster.")
BROKER_NAME = text_option("-b", "--brokerName", "broker_name", "Name of a broker.", required=True)
