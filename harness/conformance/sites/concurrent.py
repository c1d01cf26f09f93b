"""Cases on a clock that really ticks: those that break nothing run beside each other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from harness.conformance.bench import TargetFacts
from harness.conformance.case import Case
from harness.conformance.result import CaseResult, Outcome
from harness.conformance.sites.site import OnResult
from harness.conformance.trying import try_case
from harness.conformance.wire import CannotConnect, connect
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
        if self._gone:
            self._on_result(
                CaseResult(clause=case.clause, outcome=Outcome.NOT_RUN, reason=self._gone)
            )
            return
        result = await try_case(case, self._target)
        self._on_result(result)
        if result.outcome is not Outcome.PASSED and not case.is_alone:
            await self._look(case)

    async def _look(self, case: Case) -> None:
        """After a case that did not pass: whether the target is still there."""
        log = WireLog(asyncio.get_running_loop().time)
        try:
            (await connect(self._target.name_servers[0], log)).close()
        except CannotConnect as error:
            self._gone = f"the target is gone since {case.clause.id}: {error}"
