"""Removes the groups that cases leave on an external target, and the topics that brokers make for groups."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.failures import BadAnswer, TargetUnfit
from staticfire.harness.conformance.inventory import Inventory, inventory
from staticfire.harness.conformance.target_facts import TargetFacts
from staticfire.harness.conformance.wire import CannotConnect, NoAnswer, Wire
from staticfire.harness.conformance.wire_log import WireLog
from staticfire.system_under_test.protocol.codes import RequestCode

SWEEP_S = 60.0


class CleanUp:
    """Removes the groups and topics made within its `async with` block, and no others."""

    def __init__(self, target: TargetFacts) -> None:
        self._target = target
        self._ours = re.compile(
            rf"(%RETRY%|%DLQ%)?{re.escape(target.prefix)}-(look|ready|[a-z]+-[0-9]+)-.+"
        )
        self._before: dict[str, Inventory] = {}

    async def __aenter__(self) -> CleanUp:
        self._before = await self._inventories()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Remove them. Never raises, as the target may be gone."""
        if not self._target.may_administrate:
            return
        try:
            async with asyncio.timeout(SWEEP_S):
                await self._sweep()
        except (CannotConnect, NoAnswer, BadAnswer, TargetUnfit, TimeoutError):
            pass

    async def _inventories(self) -> dict[str, Inventory]:
        """Return the inventory of every master, by address."""
        bench = self._bench()
        try:
            return {
                one.address: await inventory(await bench.connect(one.address))
                for one in await bench.masters()
            }
        except (CannotConnect, NoAnswer, BadAnswer, TargetUnfit):
            return {}  # without an earlier inventory of a broker, new names cannot be recognised
        finally:
            await bench.close()

    async def _sweep(self) -> None:
        bench = self._bench()
        try:
            servers = [
                await bench.name_server(number) for number in range(len(self._target.name_servers))
            ]
            for address, before in self._before.items():
                broker = await bench.connect(address)
                now = await inventory(broker)
                await _remove(
                    broker,
                    servers,
                    topics=self._made(now.topics - before.topics),
                    groups=self._made(now.groups - before.groups),
                )
        finally:
            await bench.close()

    def _made(self, names: frozenset[str]) -> list[str]:
        return sorted(name for name in names if self._ours.fullmatch(name))

    def _bench(self) -> Bench:
        return Bench(self._target, WireLog(asyncio.get_running_loop().time), "clean-up")


async def _remove(
    broker: Wire, servers: Sequence[Wire], *, topics: Sequence[str], groups: Sequence[str]
) -> None:
    """Remove groups, then topics: a broker recreates the retry topic of a group it knows. Raises NoAnswer."""
    for group in groups:
        fields = {"groupName": group, "removeOffset": True}
        await broker.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)
    for topic in topics:
        await broker.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
        for server in servers:
            await server.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})
