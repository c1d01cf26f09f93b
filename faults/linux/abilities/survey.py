"""Finds out what a machine can do by trying it: makes a small disk and short-lived namespaces, and steps a clock.

The trials leave nothing behind and touch nothing that other programs use.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from staticfire.faults.errors import FaultError
from staticfire.faults.linux.clock import PACKAGE as CLOCK_PACKAGE
from staticfire.faults.linux.clock import FakeClock, library_path
from staticfire.faults.linux.disks.disk_errors import DiskErrors
from staticfire.faults.linux.disks.disk_speed import cgroup_version
from staticfire.faults.linux.disks.loop_disk import SIZE_MIN, FileSystem, LoopDisk
from staticfire.faults.linux.disks.power_loss import cut_power
from staticfire.faults.linux.executor import NOT_FOUND, CommandFailed
from staticfire.faults.linux.machine import LinuxMachine
from staticfire.faults.linux.network.firewall import ruleset

STEP_MS = 3_600_000
JAVA_MIN = 8
_IN_NAMESPACE = ("unshare", "--net", "--")
_LINKS = "ip link add switch0 type bridge && ip link add link0 type veth peer name link1"
_SIGNALS = 'sleep 60 & kill -STOP $! && kill -CONT $! && kill -KILL $! && test -r "/proc/$$/stat"'
_FIND = 'command -v "$1" || { echo "there is no command $1" >&2; exit 127; }'


class Unavailable(FaultError):
    """The machine lacks a capability; the text gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """A capability of a machine that faults or environments need."""

    name: str
    reason: str = ""  # why it is not available; empty if it is
    package: str = ""  # Debian packages that provide it

    @property
    def available(self) -> bool:
        return not self.reason

    @property
    def advice(self) -> str:
        """The reason that it is not available, and the packages to install."""
        known = not self.package or self.package in self.reason
        return self.reason if known else f"{self.reason}; apt install {self.package}"

    def to_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "available": self.available,
            "reason": self.reason,
            "package": self.package,
        }


async def _root(machine: LinuxMachine) -> None:
    if (await machine.run(["id", "-u"])).strip() != "0":
        raise Unavailable("needs root")


async def _processes(machine: LinuxMachine) -> None:
    await machine.run(["sh", "-c", _SIGNALS])


async def _namespaces(machine: LinuxMachine) -> None:
    await machine.run([*_IN_NAMESPACE, "sh", "-c", _LINKS])


async def _nftables(machine: LinuxMachine) -> None:
    rules = ruleset(["198.18.0.2"], black_hole=True)
    await machine.run([*_IN_NAMESPACE, "nft", "-f", "-"], input=rules.encode())


async def _throttle(machine: LinuxMachine) -> None:
    await cgroup_version(machine)


async def _tbf(machine: LinuxMachine) -> None:
    shape = ["tbf", "rate", "1mbit", "burst", "5000", "latency", "400ms"]
    await machine.run([*_IN_NAMESPACE, "tc", "qdisc", "add", "dev", "lo", "root", *shape])


async def _netem(machine: LinuxMachine) -> None:
    argv = ["tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"]
    try:
        await machine.run([*_IN_NAMESPACE, *argv])
    except CommandFailed as error:
        if "qdisc kind is unknown" in error.stderr:
            raise Unavailable("the kernel has no netem (CONFIG_NET_SCH_NETEM)") from error
        raise


async def _docker(machine: LinuxMachine) -> None:
    await machine.run(["docker", "version", "--format", "{{.Server.Version}}"])


async def _sshd(machine: LinuxMachine) -> None:
    await machine.run(["sh", "-c", _FIND, "sh", "sshd"])


async def _java(machine: LinuxMachine) -> None:
    said = await machine.run(["sh", "-c", f"{_FIND} >/dev/null; java -version 2>&1", "sh", "java"])
    if java_version(said) < JAVA_MIN:
        raise Unavailable(f"needs Java {JAVA_MIN} or newer, this is {said.splitlines()[0]!r}")


def java_version(said: str) -> int:
    """Return the major version in the output of `java -version`: 8 of "1.8.0_372", 17 of "17.0.2"; 0 without one."""
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else 0


async def _clock(machine: LinuxMachine, folder: str) -> None:
    clock = FakeClock(machine, f"{folder}/offset", await library_path(machine))
    made = machine.will_make("folder", folder)
    try:
        await machine.run(["mkdir", "-p", folder])
        await clock.create()
        moved_ms = await clock.step(STEP_MS)
    finally:
        await machine.remove(made)
    if abs(moved_ms - STEP_MS) > STEP_MS // 2:
        raise Unavailable(f"a step of {STEP_MS} ms moved the clock by {moved_ms} ms")


async def _disk(machine: LinuxMachine, folder: str, file_system: FileSystem) -> list[Capability]:
    """Try a disk, its power loss and, for ext4, write-back errors. Each step needs the steps before it."""
    package = {"ext4": "e2fsprogs mount", "xfs": "xfsprogs mount"}[file_system]
    names = [f"loop {file_system}", f"shutdown {file_system}"]
    if file_system == "ext4":
        names.append("failing fsync")
    disk = LoopDisk(machine, folder, size_bytes=SIZE_MIN[file_system], file_system=file_system)

    async def create() -> None:
        await disk.create()

    async def lose_power() -> None:
        await (await cut_power(disk)).come_back()

    async def fail() -> None:
        errors = DiskErrors(disk)
        failing = await errors.fail()
        mended = await errors.heal()
        if failing.fsync != "EIO" or not mended:
            raise Unavailable(f"a device that ends early gave {failing}, mended: {mended}")

    found: list[Capability] = []
    try:
        for name, attempt in zip(names, (create, lose_power, fail), strict=False):
            reason = found[-1].reason if found and found[-1].reason else await _reason(attempt)
            found.append(_capability(name, reason, package))
    finally:
        await disk.remove()
    return found


async def _reason(attempt: Callable[[], Awaitable[None]]) -> str:
    """Return why the attempt failed; empty if it succeeded."""
    try:
        await attempt()
    except CommandFailed as error:
        return _why(error)
    except FaultError as error:
        return str(error)
    return ""


def _why(error: CommandFailed) -> str:
    """Return the error as one line. It names a command that is not installed, also one behind `unshare`."""
    missing = re.search(r"failed to execute (\S+): No such file", error.stderr)
    if missing:
        return f"there is no command {missing[1]}"
    if error.status == NOT_FOUND and "cannot be started" in error.stderr:
        return f"there is no command {error.argv[0]}"
    lines = error.stderr.splitlines()
    return lines[-1].strip() if lines else str(error)


def _capability(name: str, reason: str, package: str = "") -> Capability:
    """Make a capability. It names the package only if a command is missing, not if the kernel refuses."""
    is_absent = reason.startswith("there is no ")
    return Capability(name=name, reason=reason, package=package if is_absent else "")


# Capability, Debian packages, the attempt, whether the attempt needs root.
ATTEMPTS: tuple[tuple[str, str, Callable[[LinuxMachine], Awaitable[None]], bool], ...] = (
    ("processes", "", _processes, False),
    ("namespaces", "iproute2", _namespaces, True),
    ("nftables", "nftables", _nftables, True),
    ("blkio throttle", "", _throttle, True),
    ("tbf", "iproute2", _tbf, True),
    ("netem", "iproute2", _netem, True),
    ("docker", "docker.io", _docker, False),
    ("sshd", "openssh-server", _sshd, False),
    ("java", "default-jre-headless", _java, False),
)
DISK_CAPABILITIES = (
    *("loop ext4", "shutdown ext4", "failing fsync"),
    *("loop xfs", "shutdown xfs"),
)


async def survey(machine: LinuxMachine, folder: str) -> list[Capability]:
    """Try everything below `folder`, an absolute path on the machine that does not exist yet and is removed again.

    Raises FaultError only if something that a trial made cannot be removed.
    """
    is_root = await _reason(lambda: _root(machine)) == ""
    found = [_capability("root", "" if is_root else "needs root")]
    for name, package, attempt, needs_root in ATTEMPTS:
        if needs_root and not is_root:
            found.append(Capability(name=name, reason="needs root"))
            continue
        found.append(_capability(name, await _reason(partial(attempt, machine)), package))
    clock = await _reason(lambda: _clock(machine, f"{folder}-clock"))
    found.append(_capability("libfaketime", clock, CLOCK_PACKAGE))
    if not is_root:
        return [*found, *(Capability(name=n, reason="needs root") for n in DISK_CAPABILITIES)]
    ext4, xfs = await asyncio.gather(
        _disk(machine, f"{folder}-ext4", "ext4"), _disk(machine, f"{folder}-xfs", "xfs")
    )
    return [*found, *ext4, *xfs]
