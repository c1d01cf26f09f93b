"""A running cluster: the site asks for its nodes, and breaks none of them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence

from staticfire.harness.conformance.bench import MASTER
from staticfire.harness.conformance.case import Case
from staticfire.harness.conformance.clause import Need
from staticfire.harness.conformance.clients.processes import ProcessClients
from staticfire.harness.conformance.sites.clean_up import CleanUp
from staticfire.harness.conformance.sites.concurrent import run_beside, run_with_client
from staticfire.harness.conformance.sites.presence import find_brokers, require_admitted
from staticfire.harness.conformance.sites.site import OnResult
from staticfire.harness.conformance.target_facts import BrokerAddress, TargetFacts
from staticfire.harness.interrupts import left_whole, run_interruptibly

UNBREAKABLE = "the target is an external cluster: its nodes are not ours to {}"
_LACKING = {
    Need.FAULT: UNBREAKABLE.format("stop or kill"),
    Need.POWER: UNBREAKABLE.format("cut the power of"),
    Need.FILES: UNBREAKABLE.format("look into"),
    Need.CLIENT: "no client library is under test; give --client",
}


class AddressSite:
    """A running RocketMQ with these name servers."""

    is_virtual = False
    makes_clusters = False

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
        self._brokers: tuple[BrokerAddress, ...] = ()

    def look(self) -> tuple[BrokerAddress, ...]:
        """Return the brokers; the query is made only once.

        Raises SiteFailed without a RocketMQ or without permission.
        """
        if not self._brokers:
            self._brokers = asyncio.run(self._look())
        return self._brokers

    async def _look(self) -> tuple[BrokerAddress, ...]:
        brokers = await find_brokers(self._target)
        await require_admitted(self._target)
        return brokers

    def lacks(self, need: Need) -> str | None:
        if need is Need.ADMIN and not self._target.may_administrate:
            return "topics may not be made or changed here"
        if need is Need.MULTI and not is_multiple(self.look()):
            return "the target has not two masters, one of them with a slave"
        if need is Need.CLIENT and self._clients is not None:
            return None
        return _LACKING.get(need)

    def run(self, cases: Sequence[Case], on_result: OnResult) -> None:
        self.look()
        if self._clients is None:
            run_interruptibly(self._clean(run_beside(cases, self._target, on_result)))
            return
        with self._clients:
            beside = run_with_client(cases, self._target, self._clients, on_result)
            run_interruptibly(self._clean(beside))

    async def _clean(self, work: Coroutine[object, object, None]) -> None:
        async with left_whole(CleanUp(self._target)):
            await work


def is_multiple(brokers: Sequence[BrokerAddress]) -> bool:
    masters = {broker.name for broker in brokers if broker.id == MASTER}
    slaves = {broker.name for broker in brokers if broker.id != MASTER}
    return len(masters) >= 2 and bool(masters & slaves)
