"""`--environment address`: what a campaign is given by the cluster that it is for."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace
from typing import Any

from faults.fault import PlannedFault
from harness.cli.status import BadInput, HarnessError
from harness.environments.fleet_options import FleetOptions


def take_cluster(given: dict[str, Any], fleet: FleetOptions) -> None:
    """Ask the cluster for its shape, before a plan is drawn. Promises that the user did not give are the weakest ones.

    Raises BadInput, and HarnessError if the cluster does not answer.
    """
    if given.get("target") == "address":
        given.setdefault("environment", "address")
    if given.get("environment") != "address":
        if fleet.name_servers:
            raise BadInput("--name-server is only for --environment address")
        return
    if not fleet.name_servers:
        raise BadInput("--environment address needs --name-server HOST:PORT[,HOST:PORT...]")
    from harness.environments.errors import EnvironmentFailed
    from harness.environments.somebodys_cluster import find_cluster

    try:
        found = asyncio.run(find_cluster(fleet.name_servers))
    except EnvironmentFailed as error:
        raise HarnessError(str(error)) from error
    given["name_servers"] = len(fleet.name_servers)
    given["slaves"] = found.slaves
    given["brokers"] = tuple(found.brokers)
    _make_it_another_run(given)
    given.setdefault("flush", "async")
    given.setdefault("replication", "async" if any(found.slaves) else "none")


def _make_it_another_run(given: dict[str, Any]) -> None:
    """A campaign that is repeated gets a topic of its own, too; its plan may name the old one."""
    old, new = str(given.get("token", "")), secrets.token_hex(4)
    given["token"] = new

    def renamed(planned: PlannedFault) -> PlannedFault:
        topic = planned.params.get("topic")
        if not old or not isinstance(topic, str):
            return planned
        return replace(planned, params={**planned.params, "topic": topic.replace(old, new)})

    if "plan" in given:
        given["plan"] = tuple(map(renamed, given["plan"]))
