"""What a machine sends through one of its interfaces, made slower, later or lossy by tc(8).

Bandwidth needs the kernel's tbf, delay and loss need netem, which many small kernels lack: `has_netem()` says so.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from faults.errors import FaultError
from faults.linux.executor import CommandFailed
from faults.linux.machine import Machine
from faults.linux.resources import Resource

HANDLE = "5f1e:"  # by which our qdisc is known
CHILD = "5f1f:"
BURST_BYTES_MIN = 5000  # a packet and more, or tbf sends nothing
TBF_LATENCY_MS = 400  # how long a packet may wait before it is dropped
HERTZ = 250  # tbf fills its bucket at least this often


class TrafficError(FaultError):
    """The traffic cannot be shaped so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What becomes of outgoing packets; 0 leaves a property alone."""

    bits_per_s: int = 0
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss_percent: float = 0.0

    @property
    def needs_netem(self) -> bool:
        return bool(self.delay_ms or self.jitter_ms or self.loss_percent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Of our qdisc, since it was made."""

    packets: int
    dropped: int
    delayed: int  # packets that had to wait for bandwidth


def commands(interface: str, shape: Shape) -> list[list[str]]:
    """The tc commands for a shape: netem at the root, tbf there or below. Raises TrafficError for nonsense."""
    values = (shape.bits_per_s, shape.delay_ms, shape.jitter_ms, shape.loss_percent)
    if min(values) < 0 or shape.loss_percent > 100 or not any(values):
        raise TrafficError(
            f"{shape} is no shape; allowed: one property or more, none negative, loss up to 100"
        )
    at = [["root", "handle", HANDLE], ["parent", f"{HANDLE}1", "handle", CHILD]]
    kinds = []
    if shape.needs_netem:
        kinds.append(_netem(shape))
    if shape.bits_per_s:
        kinds.append(_tbf(shape))
    return [
        ["tc", "qdisc", "add", "dev", interface, *where, *kind]
        for where, kind in zip(at, kinds, strict=False)
    ]


def _netem(shape: Shape) -> list[str]:
    argv = ["netem"]
    if shape.delay_ms or shape.jitter_ms:
        argv += ["delay", f"{shape.delay_ms:g}ms", f"{shape.jitter_ms:g}ms"]
    if shape.loss_percent:
        argv += ["loss", f"{shape.loss_percent:g}%"]
    return argv


def _tbf(shape: Shape) -> list[str]:
    burst = max(BURST_BYTES_MIN, shape.bits_per_s // 8 // HERTZ)
    rate = ["rate", f"{shape.bits_per_s}bit", "burst", str(burst)]
    return ["tbf", *rate, "latency", f"{TBF_LATENCY_MS}ms"]


def counters_of(listing: str) -> Counters:
    """From `tc -statistics -json qdisc show`: what the whole of our qdisc did."""
    ours = [q for q in json.loads(listing) if q.get("handle") in (HANDLE, CHILD)]
    return Counters(
        packets=max((q.get("packets", 0) for q in ours), default=0),
        dropped=max((q.get("drops", 0) for q in ours), default=0),
        delayed=sum(q.get("overlimits", 0) for q in ours),
    )


async def has_netem(machine: Machine) -> bool:
    """Tried on the loopback of a namespace that is gone at once; needs root."""
    argv = ["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"]
    return await machine.answers(argv)


class Traffic:
    """The traffic out of one interface, such as `eth0` of a node's namespace (the machine's prefix)."""

    def __init__(self, machine: Machine, interface: str) -> None:
        self._machine = machine
        self._interface = interface
        self._qdisc: Resource | None = None

    async def shape(self, shape: Shape) -> None:
        """Shape it like this from now on. Raises TrafficError, also where the kernel lacks what it takes."""
        argvs = commands(self._interface, shape)
        await self.heal()
        self._qdisc = self._machine.will_make("qdisc", self._interface, handle=HANDLE)
        for argv in argvs:
            try:
                await self._machine.run(argv)
            except CommandFailed as error:
                await self.heal()
                if "qdisc kind is unknown" in error.stderr:
                    raise TrafficError(
                        f"the kernel of this machine has no {_kind(argv)}"
                    ) from error
                raise

    async def counters(self) -> Counters:
        """The proof: packets dropped and delayed since `shape()`."""
        argv = ["tc", "-statistics", "-json", "qdisc", "show", "dev", self._interface]
        return counters_of(await self._machine.run(argv))

    async def heal(self) -> None:
        """Remove our qdisc, and none that is somebody else's."""
        if self._qdisc is not None:
            await self._machine.remove(self._qdisc)
            self._qdisc = None


def _kind(argv: list[str]) -> str:
    return "netem" if "netem" in argv else "tbf"
