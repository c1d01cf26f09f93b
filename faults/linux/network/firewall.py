"""Packets that vanish, by an nftables table of our own: rules of other programs are not read or touched.

The table is made anew from what is dropped with each change, in one transaction; the counters are objects with names,
so they live until `heal()`. To TCP both directions are as lost as on a wire, it waits longer and longer before it tries
again: after 20 s of either, with a packet every 20 ms, the next one arrived 6.5 s after the end.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from ipaddress import ip_address

from staticfire.faults.linux.executor import CommandFailed
from staticfire.faults.linux.machine import LinuxMachine
from staticfire.faults.linux.resources import Resource

TABLE = "inet staticfire"
BLACK_HOLE_IN, BLACK_HOLE_OUT = "black_hole_in", "black_hole_out"  # names of counters
PRIORITY = -10  # before other people's filters, so that what we drop is counted here


@dataclass(frozen=True, slots=True, kw_only=True)
class Spared:
    """A controller of the machine: its address, and the machine's own TCP port to which it connects."""

    address: str
    port: int

    @property
    def accepted(self) -> tuple[str, str]:
        """What is let in, and what is let out."""
        incoming = f"{_match(self.address, 'saddr')}tcp dport {self.port} accept"
        return incoming, f"{_match(self.address, 'daddr')}tcp sport {self.port} accept"


def counter_of(source: str) -> str:
    """The name of the counter of packets from an address."""
    return f"from_{source.replace('.', '_').replace(':', '_')}"


def _match(address: str, field: str) -> str:
    family = "ip" if ip_address(address).version == 4 else "ip6"
    return f"{family} {field} {address} "


def ruleset(
    sources: list[str],
    *,
    black_hole: bool,
    anew: bool = False,
    spared: Spared | None = None,
) -> str:
    """The whole table as `nft -f` reads it; to load it twice changes nothing, and no counter unless `anew`.

    Args:
        sources: addresses; what comes from them is dropped.
    """
    counters = [counter_of(source) for source in sources]
    if black_hole:
        counters += [BLACK_HOLE_IN, BLACK_HOLE_OUT]
    lines = [f"add table {TABLE}"]
    if anew:
        lines += [f"delete table {TABLE}", f"add table {TABLE}"]
    lines += [f"add counter {TABLE} {name}" for name in dict.fromkeys(counters)]
    for chain in ("input", "output"):
        hook = f"type filter hook {chain} priority {PRIORITY}; policy accept;"
        lines += [f"add chain {TABLE} {chain} {{ {hook} }}", f"flush chain {TABLE} {chain}"]
    lines += [_rule(source) for source in sources]
    if black_hole and spared is not None:
        let_in, let_out = spared.accepted
        lines += [f"add rule {TABLE} input {let_in}", f"add rule {TABLE} output {let_out}"]
    if black_hole:
        lines += [
            f'add rule {TABLE} input iifname != "lo" counter name {BLACK_HOLE_IN} drop',
            f'add rule {TABLE} output oifname != "lo" counter name {BLACK_HOLE_OUT} drop',
        ]
    return "\n".join(lines) + "\n"


def _rule(source: str) -> str:
    return f"add rule {TABLE} input {_match(source, 'saddr')}counter name {counter_of(source)} drop"


def counted(listing: str) -> dict[str, int]:
    """Packets by counter, from `nft --json list counters`."""
    found = (entry.get("counter") for entry in json.loads(listing)["nftables"])
    return {counter["name"]: counter["packets"] for counter in found if counter}


class Firewall:
    """The table on one machine, or in one network namespace (the machine's prefix).

    Two faults may drop the same; it is restored when both have ended. A black hole spares the connection over
    which a machine elsewhere is controlled, if there is one.
    """

    def __init__(self, machine: LinuxMachine, *, spared: Spared | None = None) -> None:
        self.machine = machine
        self.spared = spared
        self._sources: dict[str, int] = {}  # how many faults drop what comes from an address
        self._black_holes = 0
        self._table: Resource | None = None
        self._loading = asyncio.Lock()

    async def drop_from(self, address: str) -> None:
        """Drop what comes from this address."""
        self._sources[address] = self._sources.get(address, 0) + 1
        await self._load()

    async def restore_from(self, address: str) -> None:
        if address not in self._sources:
            return
        self._sources[address] -= 1
        if self._sources[address] == 0:
            del self._sources[address]
        await self._load()

    async def black_hole(self) -> None:
        """Drop everything in and out, without a word: no RST, no FIN. Loopback is kept. ARP still answers.

        Only in a network namespace of a node's own, or where the connection that controls the machine is spared.
        """
        self._black_holes += 1
        await self._load()

    async def end_black_hole(self) -> None:
        if self._black_holes > 0:
            self._black_holes -= 1
            await self._load()

    async def heal(self) -> None:
        """Restore everything: delete the table, and its counters with it."""
        self._sources.clear()
        self._black_holes = 0
        async with self._loading:
            if self._table is not None:
                await self.machine.remove(self._table)
                self._table = None

    async def dropped_from(self, address: str) -> int:
        """Packets dropped since the last heal()."""
        return (await self._counters()).get(counter_of(address), 0)

    async def dropped_in_black_hole(self) -> int:
        """Packets in and out."""
        counters = await self._counters()
        return counters.get(BLACK_HOLE_IN, 0) + counters.get(BLACK_HOLE_OUT, 0)

    async def _counters(self) -> dict[str, int]:
        if self._table is None:
            return {}
        try:
            argv = ["nft", "--json", "list", "counters", "table", *TABLE.split()]
            return counted(await self.machine.run(argv))
        except CommandFailed as error:
            if "No such file" in error.stderr:  # all rules of the machine were flushed
                return {}
            raise

    async def _load(self) -> None:
        """A table that was left under our name goes with the first load."""
        async with self._loading:
            is_first = self._table is None
            if self._table is None:
                self._table = self.machine.will_make("nft table", TABLE)
            rules = ruleset(
                list(self._sources),
                black_hole=self._black_holes > 0,
                anew=is_first,
                spared=self.spared,
            )
            await self.machine.run(["nft", "-f", "-"], input=rules.encode())
