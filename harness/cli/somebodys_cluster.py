"""`--environment address`: what a campaign is given by the cluster that it is for."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

from harness.cli.status import BadInput, HarnessError
from harness.environments.fleet_options import FleetOptions


def take_cluster(given: dict[str, Any], fleet: FleetOptions) -> None:
    """Ask the cluster for its shape, before a plan is drawn. Promises that nobody gave are the weakest ones.

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
    given["token"] = secrets.token_hex(4)
    given.setdefault("flush", "async")
    given.setdefault("replication", "async" if any(found.slaves) else "none")
