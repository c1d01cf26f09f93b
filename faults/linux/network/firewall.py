"""Drops packets with an nftables table of our own. Rules of other programs are neither read nor changed.

Each change replaces the rules of the table in one transaction. The counters are named objects, which keep their values
until `heal()`. To TCP a drop in either direction is like a broken wire, and its retries back off: with a packet every
20 ms, the first one after a drop of 20 s arrived 6.5 s after the end.
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
PRIORITY = -10  # before filters of other programs, so that our counters see the dropped packets


@dataclass(frozen=True, slots=True, kw_only=True)
class Spared:
    """The connection over which the machine is controlled: the controller's address, and the machine's TCP port."""

    address: str
    port: int

    @property
    def accepted(self) -> tuple[str, str]:
        """The rules that accept its incoming and its outgoing packets."""
        incoming = f"{_match(self.address, 'saddr')}tcp dport {self.port} accept"
        return incoming, f"{_match(self.address, 'daddr')}tcp sport {self.port} accept"


def counter_of(source: str) -> str:
    """Return the name of the counter of packets from an address."""
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
    """Return the whole table as input of `nft -f`. Loading it twice changes nothing.

    Args:
        sources: addresses from which packets are dropped.
        black_hole: whether to drop all packets in and out, except on loopback.
        anew: whether to delete a former table first, which resets the counters.
        spared: a connection that a black hole does not break.
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
    """Return packets by counter, from the output of `nft --json list counters`."""
    found = (entry.get("counter") for entry in json.loads(listing)["nftables"])
    return {counter["name"]: counter["packets"] for counter in found if counter}


class Firewall:
    """The table on one machine, or in one network namespace (the machine's prefix).

    Two faults may drop the same packets, which pass again when both have ended. A black hole spares the connection over
    which a remote machine is controlled, if there is one.
    """

    def __init__(self, machine: LinuxMachine, *, spared: Spared | None = None) -> None:
        self.machine = machine
        self.spared = spared
        self._sources: dict[str, int] = {}  # address -> number of faults that drop its packets
        self._black_holes = 0
        self._table: Resource | None = None
        self._loading = asyncio.Lock()

    async def drop_from(self, address: str) -> None:
        """Drop packets from this address."""
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
        """Drop all packets in and out, without RST or FIN. Loopback still works, and so does ARP.

        Call this only in a network namespace of a node, or where the connection that controls the machine is spared.
        """
        self._black_holes += 1
        await self._load()

    async def end_black_hole(self) -> None:
        if self._black_holes > 0:
            self._black_holes -= 1
            await self._load()

    async def heal(self) -> None:
        """Restore everything: delete the table with its counters."""
        self._sources.clear()
        self._black_holes = 0
        async with self._loading:
            if self._table is not None:
                await self.machine.remove(self._table)
                self._table = None

    async def dropped_from(self, address: str) -> int:
        """Return the number of packets dropped since the last heal()."""
        return (await self._counters()).get(counter_of(address), 0)

    async def dropped_in_black_hole(self) -> int:
        """Return the number of packets, in and out, that black holes dropped since the last heal()."""
        counters = await self._counters()
        return counters.get(BLACK_HOLE_IN, 0) + counters.get(BLACK_HOLE_OUT, 0)

    async def _counters(self) -> dict[str, int]:
        if self._table is None:
            return {}
        try:
            argv = ["nft", "--json", "list", "counters", "table", *TABLE.split()]
            return counted(await self.machine.run(argv))
        except CommandFailed as error:
            # another program has flushed all rules of the machine
            if "No such file" in error.stderr:
                return {}
            raise

    async def _load(self) -> None:
        """Load the table. The first load replaces a table of our name that an earlier run left."""
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
