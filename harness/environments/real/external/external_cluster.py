"""Finds the nodes of an external cluster, and removes the traces of a run from it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from staticfire.faults.model.topology import LEADER_NUMBER
from staticfire.harness.clients.admin import READER
from staticfire.harness.machines.errors import EnvironmentFailed
from staticfire.system_under_test.admin.client import AdminClient
from staticfire.system_under_test.admin.errors import AdminError
from staticfire.system_under_test.admin.groups import delete_group
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.runtime.real_env import JsonLinesLog, RealClock, make_env

LOOK_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCluster:
    """Addresses of brokers by `name:id`, the master of each name first."""

    brokers: dict[str, str]

    @property
    def slaves(self) -> tuple[int, ...]:
        """Return the number of slaves of each master."""
        names = [name.rpartition(":")[0] for name in self.brokers]
        return tuple(names.count(name) - 1 for name in dict.fromkeys(names))


async def find_cluster(name_servers: Sequence[str]) -> FoundCluster:
    """Ask every name server, and every broker that they know. Raises EnvironmentFailed in one sentence."""
    if not name_servers:
        raise EnvironmentFailed("--environment address needs --name-server HOST:PORT[,...]")
    try:
        async with asking(name_servers) as admin:
            for address in name_servers:  # the first answer would hide that another one is down
                await admin.ask(address, RequestCode.GET_BROKER_CLUSTER_INFO)
            found = await admin.brokers()
            brokers = {
                f"{broker.broker_name}:{number}": address
                for broker in found
                for number, address in sorted(broker.broker_addrs.items())
            }
            await asyncio.gather(
                *(admin.ask(each, RequestCode.GET_BROKER_RUNTIME_INFO) for each in brokers.values())
            )
    except AdminError as error:
        raise EnvironmentFailed(f"the cluster at {', '.join(name_servers)}: {error}") from error
    if not brokers:
        raise EnvironmentFailed(f"{', '.join(name_servers)} know of no broker")
    for broker in found:
        if LEADER_NUMBER not in broker.broker_addrs:
            raise EnvironmentFailed(f"the broker {broker.broker_name} has no master now")
    return FoundCluster(brokers=brokers)


async def remove_traces(
    name_servers: Sequence[str],
    masters: Sequence[str],
    *,
    topic: str,
    group: str,
    say: Callable[[str], None],
) -> None:
    """Delete the topic, the group, the group's own topics and the group of look-ups; report what cannot be deleted.

    Slaves follow their masters, and so do their registrations with name servers.
    """
    topics = (topic, f"%RETRY%{group}", f"%DLQ%{group}")
    async with asking(name_servers) as admin:

        async def on_broker(address: str) -> None:
            for name in (group, READER):
                await delete_group(admin, address, name, remove_offset=True)
            for name in topics:
                await admin.ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": name})

        async def on_name_server(address: str) -> None:
            for name in topics:
                await admin.ask(address, RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": name})

        for work, addresses in ((on_broker, masters), (on_name_server, name_servers)):
            done = await asyncio.gather(*map(work, addresses), return_exceptions=True)
            for error in done:
                if isinstance(error, AdminError):
                    say(f"{topic} and {group} may be left: {error}")
                elif error is not None:
                    raise error


@asynccontextmanager
async def asking(
    name_servers: Sequence[str], *, timeout_s: float | None = None
) -> AsyncIterator[AdminClient]:
    """Return an administrator that logs nothing and, by default, waits `LOOK_TIMEOUT_S` for an answer."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        env = make_env("admin")
        env = replace(env, log=JsonLinesLog("admin", RealClock(), nowhere))
        timeout_s = LOOK_TIMEOUT_S if timeout_s is None else timeout_s
        async with AdminClient(env, name_servers, timeout_s=timeout_s) as admin:
            yield admin
