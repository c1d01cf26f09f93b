"""Names the cluster, and asks for confirmation, before a command of `staticfire admin` changes it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from staticfire.harness.cli.status import BadInput
from staticfire.harness.report.quantities import with_noun
from staticfire.harness.truncated_repr import printable
from staticfire.system_under_test.admin import AdminClient, AdminError, brokers

MASTER_ID = 0
SECRET = ("secretKey",)  # options whose values must not appear in logs


class Effect(Enum):
    """The effect of a command on a cluster."""

    READS = "it changes nothing"
    CHANGES = "it adds something; what is there already is overwritten only with consent"
    DESTROYS = "something is deleted, overwritten, or taken from clients"


@dataclass(frozen=True, slots=True)
class Consent:
    """The user's consent to a destructive command."""

    is_given: bool  # --yes
    is_dry_run: bool  # --dry-run


def check_consent(
    command: str, consent: Consent, *, has_address: bool, changes: Sequence[str] = ()
) -> None:
    """Refuse what can be refused before anything is changed.

    Args:
        changes: a clause for each existing thing that would be overwritten; empty for a command that always asks.

    Raises:
        BadInput: the address is the default one, or there is neither consent nor a terminal to ask for it.
    """
    why = f"{'; '.join(changes)}: " if changes else ""
    if not has_address:
        raise BadInput(
            f"{why}{command} takes no default address{' for that' if changes else ''}: another cluster may be there; "
            "name the servers with -n ADDRESS or in NAMESRV_ADDR"
        )
    if not (consent.is_given or consent.is_dry_run or _has_terminal()):
        raise BadInput(
            f"{why}{command} asks before it acts, and there is no terminal; give --yes, or --dry-run to see its target"
        )


def ask_consent(command: str, values: Mapping[str, object]) -> None:
    """Ask on the terminal. Raises BadInput unless the answer is yes."""
    print(f"{command} {in_words(values)}: go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise BadInput(f"{command} was not confirmed; nothing is changed")


def changes_in_words(
    what: str,
    there: Mapping[str, Mapping[str, object]],
    wanted: Mapping[str, object],
    nouns: Mapping[str, str] | None = None,
) -> list[str]:
    """Describe how an existing thing would change, with a clause for each kind of difference; empty without any.

    Args:
        what: the thing, such as "topic 'Orders'".
        there: its present fields on each node that has it, by the name of the node.
        wanted: the fields after the change.
        nouns: nouns of fields whose number comes first: "16 read queues", not "readQueueNums 16".
    """
    nodes: dict[str, list[str]] = {}
    for node, fields in there.items():
        names = [name for name, value in wanted.items() if fields.get(name) != value]
        if names:
            now, then = (
                ", ".join(_field(name, given.get(name), nouns or {}) for name in names)
                for given in (fields, wanted)
            )
            nodes.setdefault(f"with {now}; it would have {then}", []).append(node)
    return [f"{what} exists on {', '.join(where)} {how}" for how, where in nodes.items()]


def _field(name: str, value: object, nouns: Mapping[str, str]) -> str:
    shown = printable(str(value).lower() if isinstance(value, bool) else str(value))
    return f"{shown} {nouns[name]}" if name in nouns else f"{name} {shown}"


def _has_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def in_words(values: Mapping[str, object]) -> str:
    """Return the options that have a value: `topic=Orders cluster=DefaultCluster`. Secrets become `***`."""
    given = {name: value for name, value in values.items() if value is not None}
    return " ".join(f"{name}={'***' if name in SECRET else given[name]}" for name in given)


async def target_of(admin: AdminClient, values: Mapping[str, Any]) -> str:
    """Describe the target of a command: a broker, or clusters with their numbers of brokers.

    Raises AdminError if no node answers there.
    """
    if values.get("broker") is not None:
        return await _broker(admin, values["broker"])
    found = await admin.brokers(values.get("cluster"))
    names = sorted({broker.cluster for broker in found})
    ids = [number for broker in found for number in broker.broker_addrs]
    masters = ids.count(MASTER_ID)
    where = f"{', '.join(names)} ({with_noun(masters, 'master')}, {with_noun(len(ids) - masters, 'slave')})"
    if not ids:
        where = "a cluster without brokers"
    return f"{where}, name servers {', '.join(admin.name_servers)}"


async def _broker(admin: AdminClient, address: str) -> str:
    try:
        text = await brokers.broker_config(admin, address)
    except AdminError as error:
        if error.code is None:
            raise
        return f"the broker at {address}"  # it does not report its name
    lines = (line.partition("=") for line in text.splitlines())
    config = {name.strip(): value.strip() for name, _, value in lines}
    if not {"brokerName", "brokerClusterName"} <= config.keys():
        return f"the broker at {address}"
    return f"{config['brokerName']} of {config['brokerClusterName']}, the broker at {address}"
