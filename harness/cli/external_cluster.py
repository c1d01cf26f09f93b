"""`--environment address`: takes the options of a campaign that an external cluster decides."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.cli.status import BadInput, HarnessError, turn_errors
from staticfire.harness.machines.errors import EnvironmentFailed
from staticfire.harness.machines.options import MachineOptions

TOPOLOGY = {"leaders": "--masters", "followers": "--slaves", "coordinators": "--name-servers"}
PROMISES = ("flush", "replication")


def take_cluster(
    given: dict[str, object], provider: MachineOptions, said: Collection[str] | None = None
) -> None:
    """Ask the cluster for its nodes, before a plan is drawn. Without the user's word its promises are the weakest ones.

    Args:
        given: options of a campaign; changed in place.
        provider: holds the addresses of the name servers.
        said: the options that the user gave beside a campaign file; None: all of `given`.

    Raises BadInput, and HarnessError if the cluster does not answer.
    """
    if given.get("target") == "address":
        given.setdefault("environment", "address")
    if given.get("environment") != "address":
        if provider.name_servers:
            raise BadInput("--name-server is only for --environment address")
        return
    if not provider.name_servers:
        raise BadInput("--environment address needs --name-server HOST:PORT[,HOST:PORT...]")
    for name, option in TOPOLOGY.items():
        if said is not None and name in said:
            raise BadInput(
                f"{option} is for clusters that a run makes; "
                "--environment address takes the cluster as it is"
            )
    from staticfire.harness.environments.real.external.external_cluster import find_cluster

    with turn_errors(EnvironmentFailed, into=HarnessError):
        found = asyncio.run(find_cluster(provider.name_servers))
    if said is not None and not _is_for_such_a_cluster(given, said):
        for name in PROMISES:
            if name not in said:
                given.pop(name, None)
    given["coordinators"] = len(provider.name_servers)
    given["followers"] = found.slaves
    given["brokers"] = tuple(found.brokers)
    _make_it_another_run(given)
    given.setdefault("flush", "async")
    given.setdefault("replication", "async" if any(found.slaves) else "none")
    _check_replication(given["replication"], has_slaves=any(found.slaves))


def _is_for_such_a_cluster(given: Mapping[str, object], said: Collection[str]) -> bool:
    """Whether the campaign file was written for an external cluster, whose promises it then holds."""
    return bool(given.get("brokers")) or not {"environment", "target"} & set(said)


def _check_replication(replication: object, *, has_slaves: bool) -> None:
    """Raises BadInput."""
    if has_slaves and replication == "none":
        raise BadInput(
            "replication is none, and the cluster at --name-server has slaves; allowed: sync, async"
        )
    if not has_slaves and replication in ("sync", "async"):
        raise BadInput(
            f"replication is {replication}, and no broker of the cluster at --name-server has a slave; allowed: none"
        )


def _make_it_another_run(given: dict[str, Any]) -> None:
    """Give a repeated campaign a topic of its own, also in its plan, which may name the old one."""
    old, new = str(given.get("token", "")), secrets.token_hex(4)
    given["token"] = new

    def renamed(planned: PlannedFault) -> PlannedFault:
        topic = planned.params.get("topic")
        if not old or not isinstance(topic, str):
            return planned
        return replace(planned, params={**planned.params, "topic": topic.replace(old, new)})

    if "plan" in given:
        given["plan"] = tuple(map(renamed, given["plan"]))
