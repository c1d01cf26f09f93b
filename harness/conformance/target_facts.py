"""Facts about the target known before the first case, and the brokers that its name servers know."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from staticfire.faults.model.capabilities import Controls
from staticfire.harness.conformance.answers import json_object
from staticfire.harness.conformance.failures import TargetUnfit
from staticfire.harness.conformance.wire import Wire
from staticfire.system_under_test.protocol.codes import RequestCode

if TYPE_CHECKING:
    from staticfire.harness.conformance.client import ClientMaker

ReadStore = Callable[[str], Awaitable[Mapping[str, bytes]]]  # node -> files by path
# Stopped node, and new contents of its files by path; None removes a file.
ChangeStore = Callable[[str, Mapping[str, bytes | None]], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    """A broker as name servers know it."""

    name: str
    id: int
    address: str
    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFacts:
    """The facts about the target that are known before the first case."""

    name_servers: tuple[str, ...]
    prefix: str  # of every topic and group that cases make
    may_administrate: bool = True
    nodes: Mapping[str, str] = field(
        default_factory=dict
    )  # address -> node, if nodes can be broken
    controls: Controls | None = None  # if nodes can be broken
    read_store: ReadStore | None = None  # if the files of a node can be read
    change_store: ChangeStore | None = None  # if they can also be changed
    # Node -> CPU time of its process in seconds; None if that cannot be read.
    cpu_s: Callable[[str], Awaitable[float | None]] | None = None
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000  # of the target's wall clock
    clients: ClientMaker | None = None  # the client library under test
    listen_host: str = "127.0.0.1"  # the suite's address for clients under test


async def known_brokers(name_server: Wire) -> tuple[BrokerAddress, ...]:
    """Return all brokers of all clusters, by name and id. Raises TargetUnfit."""
    answer = await name_server.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
    table = json_object(answer).get("brokerAddrTable")
    if not isinstance(table, dict):
        raise TargetUnfit("the answer about the cluster has no brokerAddrTable")
    try:
        found = [
            BrokerAddress(
                name=name, id=int(number), address=str(address), cluster=str(data["cluster"])
            )
            for name, data in table.items()
            for number, address in data["brokerAddrs"].items()
        ]
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise TargetUnfit(f"the answer about the cluster cannot be read: {error!r}") from error
    return tuple(sorted(found, key=lambda broker: (broker.name, broker.id)))
