"""One fault against capabilities with scripted answers, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from staticfire.faults.model.capabilities import Controls, Evidence
from staticfire.faults.model.fault import PlannedFault
from staticfire.faults.plans.catalogue import fault_named
from staticfire.harness.simulation.hosts.world import World

Answer = Callable[..., Any]


class Scripted:
    """Any capability: `answers` has a function or a value for each method; the others answer None."""

    def __init__(self, calls: list[str], answers: dict[str, Any]) -> None:
        self._calls = calls
        self._answers = answers

    def __getattr__(self, method: str) -> Any:
        async def call(*arguments: Any) -> Any:
            self._calls.append(" ".join([method, *map(str, arguments)]))
            answer = self._answers.get(method)
            found = answer(*arguments) if callable(answer) else answer
            return await found if asyncio.iscoroutine(found) else found

        return call


def carried_out(
    kind: str,
    *targets: str,
    answers: dict[str, Any],
    params: dict[str, Any] | None = None,
    duration_s: float = 10.0,
) -> tuple[list[str], Evidence]:
    """What was asked for, and the evidence in the end."""
    calls: list[str] = []
    control = cast(Any, Scripted(calls, answers))
    controls = Controls(process=control, network=control, disk=control, cluster=control)
    planned = PlannedFault(
        fault_id=0,
        kind=kind,
        at_s=0.0,
        duration_s=duration_s,
        targets=targets,
        params=params or {},
    )
    fault = fault_named(kind)
    found: list[Evidence] = []

    async def main() -> None:
        found.append(await fault.heal(controls, planned, await fault.fire(controls, planned)))

    World(1).run(main)
    return calls, found[0]
