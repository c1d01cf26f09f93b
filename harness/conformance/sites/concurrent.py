"""Cases on a clock that really ticks: those that break nothing run beside each other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from harness.conformance.bench import Bench, TargetFacts, TargetUnfit
from harness.conformance.case import Case, NotTriable
from harness.conformance.clause import Need
from harness.conformance.clients.client import ClientMaker, ClientUnusable
from harness.conformance.clients.stage import Stage
from harness.conformance.result import CaseResult, Outcome
from harness.conformance.sites.site import OnResult
from harness.conformance.trying import try_case
from harness.conformance.wire import CannotConnect, NoAnswer, connect
from harness.conformance.wire_log import WireLog

AT_ONCE = 16


async def _nothing() -> None:
    """Of places where nothing is ever broken."""


async def run_beside(
    cases: Sequence[Case],
    target: TargetFacts,
    on_result: OnResult,
    *,
    mend: Callable[[], Awaitable[None]] = _nothing,
) -> None:
    """Try all cases; those that break nodes come last, one by one, and `mend` follows each of them."""
    runner = _Runner(target, on_result)
    room = asyncio.Semaphore(AT_ONCE)

    async def try_in_turn(case: Case) -> None:
        async with room:
            await runner.try_one(case)

    await asyncio.gather(*(try_in_turn(case) for case in cases if not case.is_alone))
    for case in cases:
        if case.is_alone:
            await runner.try_one(case)
            await mend()


class _Runner:
    """Tries cases until the target is gone; from then on they are not run."""

    def __init__(self, target: TargetFacts, on_result: OnResult) -> None:
        self._target = target
        self._on_result = on_result
        self._gone = ""  # why nothing is tried any more

    async def try_one(self, case: Case) -> None:
        if reason := self._gone or self._no_client(case):
            self._on_result(CaseResult(clause=case.clause, outcome=Outcome.NOT_RUN, reason=reason))
            return
        result = await try_case(case, self._target)
        self._on_result(result)
        if result.outcome is not Outcome.PASSED and not case.is_alone:
            await self._look(case)

    def _no_client(self, case: Case) -> str:
        """Why the client under test is good for no more cases; empty if it is, or is not needed."""
        clients = self._target.clients
        return clients.broken if clients is not None and Need.CLIENT in case.clause.needs else ""

    async def _look(self, case: Case) -> None:
        """After a case that did not pass: whether the target is still there."""
        log = WireLog(asyncio.get_running_loop().time)
        try:
            (await connect(self._target.name_servers[0], log)).close()
        except CannotConnect as error:
            self._gone = f"the target is gone since {case.clause.id}: {error}"


async def run_with_client(
    cases: Sequence[Case], target: TargetFacts, clients: ClientMaker, on_result: OnResult
) -> None:
    """Try all cases if the client can be started at all."""
    target = replace(target, clients=clients)
    clients.broken = await _complaint(target)
    await run_beside(cases, target, on_result)


async def _complaint(target: TargetFacts) -> str:
    """Why nothing can be tried with the client, in a sentence; empty if it starts."""
    bench = Bench(target, WireLog(asyncio.get_running_loop().time), "client")
    try:
        await Stage(bench).producer(bench.fresh_name())
    except (ClientUnusable, NotTriable, TargetUnfit, NoAnswer, CannotConnect) as error:
        return str(error)
    finally:
        await bench.close()
    return ""
