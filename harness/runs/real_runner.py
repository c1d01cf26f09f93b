"""A run on real machines: the phases of every run, on wall-clock time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, BinaryIO

from staticfire.checkers.model.history import CLUSTER_GONE, NEMESIS, Op
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.clients.client_command import ROLES, is_command
from staticfire.harness.environments.real.catalogue import DEFAULTS, make_provider
from staticfire.harness.environments.real.controls import real_controls
from staticfire.harness.environments.real.environment import RealEnvironment
from staticfire.harness.environments.real.machine_provider import Vanishing
from staticfire.harness.interrupts import Interrupts, say
from staticfire.harness.machines.errors import EnvironmentFailed
from staticfire.harness.machines.machine import Machine
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.recording.recorder import Columns, Recorder
from staticfire.harness.results.run_result import RunResult
from staticfire.harness.results.run_status import Progress, no_progress
from staticfire.harness.runs.runner import Run
from staticfire.harness.systems.errors import RunError
from staticfire.harness.systems.registry import system_of
from staticfire.harness.targets.target import Target

TICK_S = 0.5  # between two reports of progress
# Seconds of refusals after which the harness no longer waits for a broker. After a fault, brokers wait for each other
# for a shorter time (VISIBLE_BOUND_S in rocketmq/observers/drain.py).
REFUSING_S = 45


def run_for_real(
    campaign: Campaign,
    *,
    history: BinaryIO | None = None,
    observations: BinaryIO | None = None,
    columns: Columns | None = None,
    progress: Progress | None = None,
    machine_options: MachineOptions = DEFAULTS,
) -> RunResult:
    """Run the campaign in its environment and judge it.

    Ctrl-C, SIGTERM or a closed terminal ends the load early: the harness heals the faults, drains the groups, and
    judges the history so far. A second signal gives the run up.

    Raises:
        RunError: the cluster did not come up, or a client cannot do what its configuration asks for.
        EnvironmentFailed: the machines could not be made.
        CapabilityMissing: a fault of the plan cannot be carried out here.
    """
    try:
        return asyncio.run(
            carry_out(
                campaign,
                history=history,
                observations=observations,
                columns=columns,
                progress=progress,
                machine_options=machine_options,
            )
        )
    except asyncio.CancelledError:  # by the second Ctrl-C; everything is removed
        raise KeyboardInterrupt from None


async def carry_out(
    campaign: Campaign,
    *,
    history: BinaryIO | None = None,
    observations: BinaryIO | None = None,
    columns: Columns | None = None,
    progress: Progress | None = None,
    machine_options: MachineOptions = DEFAULTS,
) -> RunResult:
    """Do the work of `run_for_real` on a running loop of the main thread, which handles the signals."""
    system = system_of(campaign)
    provider = make_provider(campaign.environment, machine_options)

    def target_at(machines: Mapping[str, Machine]) -> Target:
        return system.real(campaign, provider, machines, machine_options)

    clock: list[Callable[[], int]] = []
    recorder = Recorder(
        lambda: clock[0](), history=history, observations=observations, columns=columns
    )
    environment = RealEnvironment(campaign, recorder, provider, target_at)
    clock.append(environment.now_ns)
    with Interrupts() as interrupts:
        async with environment:
            operations = system.operations(environment, REFUSING_S)
            run = Run(
                environment,
                real_controls(environment, provider, operations.cluster_control),
                operations,
                progress or no_progress,
                tick_s=TICK_S,
            )
            interrupts.run = run
            try:
                if isinstance(provider, Vanishing):
                    work = _run_while_it_is_there(run, recorder, provider.gone)
                else:
                    work = run.main()
                await unless_declined(work, recorder, by_command=is_command(campaign.client))
                await environment.check()
                # before the machines, and with them the logs of the nodes, are removed
                return run.result()
            finally:
                interrupts.remove_now()


async def unless_declined(
    work: Coroutine[Any, Any, None], recorder: Recorder, *, by_command: bool = False
) -> None:
    """Carry out the work of a run; cancel it if a client declines its configuration, or a command starts no client.

    Such a client would be restarted forever. Raises RunError with the client's reason, once the work has ended.

    Args:
        by_command: the user's command starts the clients. A process that ends before the first client of its role has
            opened shows that the command, or what the client writes first, is wrong.
    """
    declined: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    opened: set[str] = set()  # roles

    def listen(op: Op) -> None:
        role = (op.node or "").partition("-")[0]
        if declined.done():
            return
        if op.f == "open" and op.type == "fail":
            declined.set_result(f"{op.node} cannot do what its configuration asks for: {op.error}")
        elif op.f == "open":
            opened.add(role)
        elif by_command and op.f == "node_exit" and role in ROLES and role not in opened:
            declined.set_result(
                f"--client starts no {role}: {op.node} ended before its 'open': {op.error}"
            )

    recorder.listeners.append(listen)
    task = asyncio.ensure_future(work)
    try:
        waited: list[asyncio.Future[Any]] = [task, declined]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if not declined.done():
            return await task
    finally:
        recorder.listeners.remove(listen)
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
    raise RunError(declined.result())


async def _run_while_it_is_there(run: Run, recorder: Recorder, gone: asyncio.Future[str]) -> None:
    """Run `run.main()`. If the cluster goes away, heal the faults and stop waiting for its answers.

    Raises EnvironmentFailed if the cluster goes away before it was up.
    """
    main = asyncio.ensure_future(run.main())
    healed = asyncio.ensure_future(run.healed.wait())
    try:
        waited: list[asyncio.Future[Any]] = [main, gone]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if main.done():
            return await main
        if not run.is_under_load:
            raise EnvironmentFailed(gone.result())
        recorder.record(NEMESIS, "info", CLUSTER_GONE, {"phase": "gone"}, gone.result())
        say(f"{gone.result()}; the history so far is judged")
        run.cut_short()
        await asyncio.wait([main, healed], return_when=asyncio.FIRST_COMPLETED)
        if main.done():
            await main
    finally:
        for task in (main, healed):
            task.cancel()
        await asyncio.wait([main, healed])
    return None
