"""Runs one case against one target, turns every ending into an outcome, and cleans up."""

from __future__ import annotations

import asyncio

from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.case import Case
from staticfire.harness.conformance.client import ClientGone, ClientUnusable
from staticfire.harness.conformance.failures import BadAnswer, ClauseBroken, NotTriable, TargetUnfit
from staticfire.harness.conformance.result import CaseResult, Outcome
from staticfire.harness.conformance.target_facts import TargetFacts
from staticfire.harness.conformance.wire import CannotConnect, NoAnswer, Refused
from staticfire.harness.conformance.wire_log import WireLog

BROKEN = (ClauseBroken, BadAnswer, Refused, NoAnswer, CannotConnect, TargetUnfit, ClientGone)


async def try_case(case: Case, target: TargetFacts) -> CaseResult:
    """Try the case within its time limit. Raises only CancelledError."""
    now_s = asyncio.get_running_loop().time
    start_s, log = now_s(), WireLog(now_s)
    bench = Bench(target, log, case.clause.id.removeprefix("RMQ-").lower())
    try:
        outcome, reason = await _outcome(case, bench)
        took_s = now_s() - start_s
        await bench.close()
    except asyncio.CancelledError:
        await bench.close()
        raise
    lines = () if outcome is Outcome.PASSED else tuple(log.lines)
    return CaseResult(
        clause=case.clause, outcome=outcome, reason=reason, took_s=took_s, wire_log=lines
    )


async def _outcome(case: Case, bench: Bench) -> tuple[Outcome, str]:
    limit = asyncio.timeout(case.limit_s)
    try:
        async with limit:
            await case.trial(bench)
    except NotTriable as error:
        return Outcome.NOT_RUN, str(error)
    except ClientUnusable as error:
        if bench.target.clients is not None:
            bench.target.clients.broken = bench.target.clients.broken or str(error)
        return Outcome.FAILED, str(error)
    except BROKEN as error:
        return Outcome.FAILED, str(error)
    except TimeoutError:
        if limit.expired():
            return Outcome.FAILED, f"it was not over after {case.limit_s:g} s"
        return Outcome.ERROR, "a wait of the case itself ended in TimeoutError"
    except Exception as error:  # any error: one case must not end the suite
        return Outcome.ERROR, f"{type(error).__name__}: {error}"
    return Outcome.PASSED, ""
