"""Runs cases in real time; those that break no node run concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import Case
from staticfire.harness.conformance.clause import Need
from staticfire.harness.conformance.client import ClientMaker, ClientUnusable
from staticfire.harness.conformance.clients.stage import Stage
from staticfire.harness.conformance.failures import NotTriable, TargetUnfit
from staticfire.harness.conformance.result import CaseResult, Outcome
from staticfire.harness.conformance.sites.presence import why_gone
from staticfire.harness.conformance.sites.site import OnResult, SiteFailed
from staticfire.harness.conformance.target_facts import TargetFacts
from staticfire.harness.conformance.trying import try_case
from staticfire.harness.conformance.wire import CannotConnect, NoAnswer
from staticfire.harness.conformance.wire_log import WireLog

AT_ONCE = 16


async def _nothing() -> None:
    """Return no controls, for sites without faults."""


async def run_beside(
    cases: Sequence[Case],
    target: TargetFacts,
    on_result: OnResult,
    *,
    mend: Callable[[], Awaitable[None]] = _nothing,
) -> None:
    """Try all cases. Those that break nodes come later, one by one; `mend` runs after each of them.

    Cases that cut power come last. A power cut may leave a master with less than its slave, and a Java slave then
    keeps a log of its own and dispatches nothing more.

    Raises SiteFailed if the target is gone, after the running cases have ended.
    """
    runner = _Runner(target, on_result)
    room = asyncio.Semaphore(AT_ONCE)

    async def try_in_turn(case: Case) -> None:
        async with room:
            await runner.try_one(case)

    await asyncio.gather(*(try_in_turn(case) for case in cases if not case.is_alone))
    alone = [case for case in cases if case.is_alone]
    for case in sorted(alone, key=lambda case: Need.POWER in case.clause.needs):
        if not runner.gone:
            await runner.try_one(case, mend)
    if runner.gone:
        raise SiteFailed(runner.gone)


class _Runner:
    """Tries cases until the target is gone."""

    def __init__(self, target: TargetFacts, on_result: OnResult) -> None:
        self.gone = ""  # why no more cases run
        self._target = target
        self._on_result = on_result
        self._looking = asyncio.Lock()

    async def try_one(self, case: Case, mend: Callable[[], Awaitable[None]] = _nothing) -> None:
        if self.gone:
            return
        if reason := self._no_client(case):
            self._on_result(CaseResult(clause=case.clause, outcome=Outcome.NOT_RUN, reason=reason))
            return
        result = await try_case(case, self._target)
        self._on_result(result)
        await mend()
        if result.outcome is not Outcome.PASSED:
            await self._look(case)

    def _no_client(self, case: Case) -> str:
        """Return why no more cases can use the client under test; empty if they can or do not need it."""
        clients = self._target.clients
        return clients.broken if clients is not None and Need.CLIENT in case.clause.needs else ""

    async def _look(self, case: Case) -> None:
        """Check after a failed case that the target still answers."""
        async with self._looking:  # one check serves all cases that fail together
            if not self.gone and (reason := await why_gone(self._target)):
                self.gone = f"the target is gone since {case.clause.id}: {reason}"


async def run_with_client(
    cases: Sequence[Case], target: TargetFacts, clients: ClientMaker, on_result: OnResult
) -> None:
    """Try all cases if the client can be started."""
    target = replace(target, clients=clients)
    clients.broken = await _complaint(target)
    await run_beside(cases, target, on_result)


async def _complaint(target: TargetFacts) -> str:
    """Return why no case can use the client, as a sentence; empty if the client starts."""
    bench = Bench(target, WireLog(asyncio.get_running_loop().time), "client")
    try:
        await Stage(bench).producer(bench.fresh_name())
    except (ClientUnusable, NotTriable, TargetUnfit, NoAnswer, CannotConnect) as error:
        return str(error)
    finally:
        await bench.close()
    return ""
