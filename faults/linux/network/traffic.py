"""Limits, delays or loses the outgoing traffic of a network interface, with tc(8).

Bandwidth needs the kernel's tbf. Delay and loss need netem, which many small kernels lack (`TRY_NETEM` checks).
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from staticfire.faults.errors import FaultError
from staticfire.faults.linux.executor import CommandFailed
from staticfire.faults.linux.machine import LinuxMachine
from staticfire.faults.linux.resources import Resource

HANDLE = "5f1e:"  # identifies our qdisc
CHILD = "5f1f:"
BURST_BYTES_MIN = 5000  # more than one packet, since tbf sends nothing otherwise
TBF_LATENCY_MS = 400  # how long a packet may wait before it is dropped
HERTZ = 250  # tbf fills its bucket at least this often


class TrafficError(FaultError):
    """The traffic cannot be shaped as requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The treatment of outgoing packets; 0 leaves a property unchanged."""

    bits_per_s: int = 0
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss_percent: float = 0.0

    @property
    def is_plain(self) -> bool:
        return not (self.bits_per_s or self.needs_netem)

    @property
    def needs_netem(self) -> bool:
        return bool(self.delay_ms or self.jitter_ms or self.loss_percent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Counters of our qdisc since it was made, in packets."""

    packets: int
    dropped: int
    delayed: int  # had to wait for bandwidth


def commands(interface: str, shape: Shape) -> list[list[str]]:
    """Return the tc commands for a shape: netem at the root, tbf there or below. Raises TrafficError."""
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
    """Sum the counters of our qdisc, from the output of `tc -statistics -json qdisc show`."""
    ours = [q for q in json.loads(listing) if q.get("handle") in (HANDLE, CHILD)]
    return Counters(
        packets=max((q.get("packets", 0) for q in ours), default=0),
        dropped=max((q.get("drops", 0) for q in ours), default=0),
        delayed=sum(q.get("overlimits", 0) for q in ours),
    )


# Tries netem on the loopback of a namespace that ends with the command. Needs root.
TRY_NETEM = (
    *("unshare", "--net"),
    *("tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"),
)


async def interface_of(machine: LinuxMachine, address: str) -> str:
    """Return the interface that has this address. Raises TrafficError if none has."""
    said = await machine.run(["ip", "-json", "address", "show", "to", address])
    found = [link["ifname"] for link in json.loads(said) if link.get("addr_info")]
    if not found:
        raise TrafficError(f"no interface of this machine has the address {address}")
    return str(found[0])


class Traffic:
    """The outgoing traffic of one interface, such as `eth0` of a node's namespace (the machine's prefix)."""

    def __init__(self, machine: LinuxMachine, interface: str) -> None:
        self._machine = machine
        self._interface = interface
        self._qdisc: Resource | None = None

    async def shape(self, shape: Shape) -> None:
        """Apply a shape from now on. Raises TrafficError for a bad shape, and if the kernel lacks netem or tbf."""
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
        """Return packets dropped and delayed since `shape()`: the proof that the fault bit."""
        argv = ["tc", "-statistics", "-json", "qdisc", "show", "dev", self._interface]
        return counters_of(await self._machine.run(argv))

    async def heal(self) -> None:
        """Remove our qdisc, but none that another program has made."""
        if self._qdisc is not None:
            await self._machine.remove(self._qdisc)
            self._qdisc = None


class NodeTraffic:
    """All faults of a node's outgoing traffic together. Counters continue when the shape changes."""

    def __init__(self, machine: LinuxMachine, address: str) -> None:
        self._machine = machine
        self._address = address
        self._shape = Shape()
        self._traffic: Traffic | None = None
        self._before: Counter[str] = Counter()

    async def change(self, **properties: Any) -> None:
        """Change properties of the shape; 0 ends one. Raises TrafficError."""
        if self._traffic is None:
            interface = await interface_of(self._machine, self._address)
            self._traffic = Traffic(self._machine, interface)
        self._before = Counter(await self.counters())
        self._shape = replace(self._shape, **properties)
        if self._shape.is_plain:
            await self._traffic.heal()
        else:
            await self._traffic.shape(self._shape)

    async def counters(self) -> dict[str, int]:
        """Return the numbers of packets `delayed`, `lost` and `limited` so far."""
        now: Counter[str] = Counter()
        if self._traffic is not None and not self._shape.is_plain:
            seen = await self._traffic.counters()
            now["delayed"] = seen.packets if self._shape.delay_ms else 0
            now["lost"] = seen.dropped if self._shape.loss_percent else 0
            now["limited"] = seen.delayed if self._shape.bits_per_s else 0
        return {name: self._before[name] + now[name] for name in ("delayed", "lost", "limited")}

    async def heal(self) -> None:
        """End all faults."""
        if self._traffic is not None:
            await self.change(bits_per_s=0, delay_ms=0.0, loss_percent=0.0)


def _kind(argv: list[str]) -> str:
    return "netem" if "netem" in argv else "tbf"
