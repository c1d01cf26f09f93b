"""Finds out which faults SSH hosts cannot carry out, before a plan is drawn or used."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Coroutine, Sequence
from typing import TypeVar

from staticfire.faults.linux.clock import FOLDERS, LIBRARY, PACKAGE
from staticfire.faults.linux.disks.disk_speed import THROTTLES
from staticfire.faults.linux.disks.loop_disk import FileSystem
from staticfire.faults.linux.executor import Executor
from staticfire.faults.linux.network.traffic import TRY_NETEM
from staticfire.harness.environments.real.broken_machines import NO_NETEM, lacks_on_disks
from staticfire.harness.machines.all_ended import all_or_first_error
from staticfire.harness.machines.options import FILE_SYSTEM, MachineOptions, SshHost
from staticfire.harness.machines.ssh.connection import SshExecutor

# Each word of the answer is something that the host lacks.
_ASK = f"""\
{shlex.join(TRY_NETEM)} 2> /dev/null || echo netem
ls {" ".join(f"{folder}/{LIBRARY}" for folder in FOLDERS)} 2> /dev/null | grep -q . || echo clock
ls {" ".join(THROTTLES)} 2> /dev/null | grep -q . || echo throttle
"""
NETEM, CLOCK, THROTTLE = "netem", "clock", "throttle"

Answer = TypeVar("Answer")


async def lacks_on(options: MachineOptions) -> dict[str, str]:
    """Return what the hosts lack, by need, each with the reason and the cure; see `MachineProvider.lacks`.

    Raises EnvironmentFailed for a host that does not let us in.
    """
    hosts = tuple(dict.fromkeys(options.hosts))
    found = await each_of(hosts, options, ask)
    return lacks_of(hosts, found, options.file_system)


async def each_of(
    hosts: Sequence[SshHost],
    options: MachineOptions,
    question: Callable[[Executor], Coroutine[object, object, Answer]],
) -> list[Answer]:
    """Call `question` with a new connection to each host. Raises EnvironmentFailed, and what `question` raises."""
    executors = [SshExecutor(host, options) for host in hosts]
    try:
        return await all_or_first_error(map(question, executors))
    finally:
        for executor in executors:
            executor.close()


async def ask(executor: Executor) -> frozenset[str]:
    """Return what one host lacks of NETEM, CLOCK and THROTTLE."""
    said = await executor.run(["sh", "-c", _ASK])
    return frozenset(said.decode().split())


def lacks_of(
    hosts: Sequence[SshHost],
    found: Sequence[frozenset[str]],
    file_system: FileSystem = FILE_SYSTEM,
) -> dict[str, str]:
    """Return the lacks by need, each with the first host that has it."""
    reasons = {
        NETEM: ("network.lose", NO_NETEM),
        CLOCK: ("clock", f"there is no {LIBRARY} there; install the package {PACKAGE}"),
        THROTTLE: ("disk.slow", "no cgroup there can throttle a disk"),
    }
    lacks = dict(lacks_on_disks(file_system))
    for host, lacking in zip(hosts, found, strict=True):
        for name, (need, reason) in reasons.items():
            if name in lacking:
                lacks.setdefault(need, f"{host}: {reason}")
    return lacks
