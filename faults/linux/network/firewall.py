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


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """What is dropped: packets from `source` to `target`; None is any address."""

    source: str | None = None
    target: str | None = None

    @property
    def counter(self) -> str:
        return f"from_{_as_name(self.source)}_to_{_as_name(self.target)}"


def _as_name(address: str | None) -> str:
    return "any" if address is None else address.replace(".", "_").replace(":", "_")


def _match(address: str | None, field: str) -> str:
    if address is None:
        return ""
    family = "ip" if ip_address(address).version == 4 else "ip6"
    return f"{family} {field} {address} "


def ruleset(
    incoming: list[Drop],
    outgoing: list[Drop],
    *,
    black_hole: bool,
    anew: bool = False,
    spared: Spared | None = None,
) -> str:
    """The whole table as `nft -f` reads it; to load it twice changes nothing, and no counter unless `anew`."""
    counters = [drop.counter for drop in (*incoming, *outgoing)]
    if black_hole:
        counters += [BLACK_HOLE_IN, BLACK_HOLE_OUT]
    lines = [f"add table {TABLE}"]
    if anew:
        lines += [f"delete table {TABLE}", f"add table {TABLE}"]
    lines += [f"add counter {TABLE} {name}" for name in dict.fromkeys(counters)]
    for chain, drops in (("input", incoming), ("output", outgoing)):
        hook = f"type filter hook {chain} priority {PRIORITY}; policy accept;"
        lines += [f"add chain {TABLE} {chain} {{ {hook} }}", f"flush chain {TABLE} {chain}"]
        lines += [_rule(chain, drop) for drop in drops]
    if black_hole and spared is not None:
        let_in, let_out = spared.accepted
        lines += [f"add rule {TABLE} input {let_in}", f"add rule {TABLE} output {let_out}"]
    if black_hole:
        lines += [
            f'add rule {TABLE} input iifname != "lo" counter name {BLACK_HOLE_IN} drop',
            f'add rule {TABLE} output oifname != "lo" counter name {BLACK_HOLE_OUT} drop',
        ]
    return "\n".join(lines) + "\n"


def _rule(chain: str, drop: Drop) -> str:
    match = _match(drop.source, "saddr") + _match(drop.target, "daddr")
    return f"add rule {TABLE} {chain} {match}counter name {drop.counter} drop"


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
        self._incoming: dict[Drop, int] = {}
        self._outgoing: dict[Drop, int] = {}
        self._black_holes = 0
        self._table: Resource | None = None
        self._loading = asyncio.Lock()

    async def drop_from(self, address: str) -> None:
        """Drop what comes from this address."""
        await self._more(self._incoming, Drop(source=address))

    async def restore_from(self, address: str) -> None:
        await self._less(self._incoming, Drop(source=address))

    async def drop_to(self, address: str) -> None:
        """Drop what goes to this address."""
        await self._more(self._outgoing, Drop(target=address))

    async def restore_to(self, address: str) -> None:
        await self._less(self._outgoing, Drop(target=address))

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
        self._incoming.clear()
        self._outgoing.clear()
        self._black_holes = 0
        async with self._loading:
            if self._table is not None:
                await self.machine.remove(self._table)
                self._table = None

    async def dropped_from(self, address: str) -> int:
        """Packets dropped since the last heal()."""
        return await self._count(Drop(source=address).counter)

    async def dropped_to(self, address: str) -> int:
        return await self._count(Drop(target=address).counter)

    async def dropped_in_black_hole(self) -> int:
        """Packets in and out."""
        counters = await self._counters()
        return counters.get(BLACK_HOLE_IN, 0) + counters.get(BLACK_HOLE_OUT, 0)

    async def _count(self, counter: str) -> int:
        return (await self._counters()).get(counter, 0)

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

    async def _more(self, drops: dict[Drop, int], drop: Drop) -> None:
        drops[drop] = drops.get(drop, 0) + 1
        await self._load()

    async def _less(self, drops: dict[Drop, int], drop: Drop) -> None:
        if drop not in drops:
            return
        drops[drop] -= 1
        if drops[drop] == 0:
            del drops[drop]
        await self._load()

    async def _load(self) -> None:
        """A table that was left under our name goes with the first load."""
        async with self._loading:
            is_first = self._table is None
            if self._table is None:
                self._table = self.machine.will_make("nft table", TABLE)
            rules = ruleset(
                list(self._incoming),
                list(self._outgoing),
                black_hole=self._black_holes > 0,
                anew=is_first,
                spared=self.spared,
            )
            await self.machine.run(["nft", "-f", "-"], input=rules.encode())
