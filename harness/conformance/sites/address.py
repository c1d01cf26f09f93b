"""Somebody's cluster: what it is made of is asked, and nothing of it is broken."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from harness.conformance.bench import (
    MASTER,
    BadAnswer,
    BrokerAddress,
    TargetFacts,
    TargetUnfit,
    known_brokers,
)
from harness.conformance.case import Case
from harness.conformance.clause import Need
from harness.conformance.clients.processes import ProcessClients
from harness.conformance.sites.concurrent import run_beside, run_with_client
from harness.conformance.sites.site import OnResult, SiteFailed
from harness.conformance.wire import CannotConnect, NoAnswer, connect
from harness.conformance.wire_log import WireLog

UNBREAKABLE = "the target is somebody's: its nodes are not ours to {}"
_LACKING = {
    Need.FAULT: UNBREAKABLE.format("stop or kill"),
    Need.POWER: UNBREAKABLE.format("cut the power of"),
    Need.FILES: UNBREAKABLE.format("look into"),
    Need.CLIENT: "no client library is under test; give --client",
}


class AddressSite:
    """A RocketMQ that runs at these name servers.

    Raises SiteFailed when it is not there, or not a RocketMQ.
    """

    is_virtual = False

    def __init__(
        self,
        name_servers: Sequence[str],
        *,
        prefix: str,
        may_administrate: bool = True,
        clients: ProcessClients | None = None,
    ) -> None:
        self.name = f"address {';'.join(name_servers)}"
        if clients is not None:
            self.name = f"client {clients.name}, against {self.name}"
        self._clients = clients
        self._target = TargetFacts(
            name_servers=tuple(name_servers), prefix=prefix, may_administrate=may_administrate
        )
        self._brokers = asyncio.run(_ask(name_servers))

    def lacks(self, need: Need) -> str | None:
        if need is Need.ADMIN and not self._target.may_administrate:
            return "topics may not be made or changed here"
        if need is Need.MULTI and not is_multiple(self._brokers):
            return "the target has not two masters, one of them with a slave"
        if need is Need.CLIENT and self._clients is not None:
            return None
        return _LACKING.get(need)

    def run(self, cases: Sequence[Case], on_result: OnResult) -> None:
        if self._clients is None:
            asyncio.run(run_beside(cases, self._target, on_result))
            return
        with self._clients:
            asyncio.run(run_with_client(cases, self._target, self._clients, on_result))


def is_multiple(brokers: Sequence[BrokerAddress]) -> bool:
    masters = {broker.name for broker in brokers if broker.id == MASTER}
    slaves = {broker.name for broker in brokers if broker.id != MASTER}
    return len(masters) >= 2 and bool(masters & slaves)


async def _ask(name_servers: Sequence[str]) -> tuple[BrokerAddress, ...]:
    """The brokers of the cluster. Raises SiteFailed."""
    log = WireLog(asyncio.get_running_loop().time)
    for address in name_servers:
        try:
            wire = await connect(address, log)
        except CannotConnect as error:
            raise SiteFailed(str(error)) from None
        try:
            brokers = await known_brokers(wire)
        except (NoAnswer, BadAnswer, TargetUnfit) as error:
            raise SiteFailed(
                f"{address} does not answer like a RocketMQ name server: {error}"
            ) from None
        finally:
            wire.close()
        if not any(broker.id == MASTER for broker in brokers):
            raise SiteFailed(f"{address} knows no master broker")
    return brokers
