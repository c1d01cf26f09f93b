"""A network on this machine: a switch, and a network namespace with an address for each node.

The bridge is in a namespace, too, where rules of other programs do not apply (Docker drops packets that bridges
forward). The machine itself has one link into that namespace, with the first address. The addresses are of
198.18.0.0/15, which is reserved for tests of networks (RFC 2544), so they hide no real host.

Enter a namespace with the prefix of its node. `ip netns exec` would also copy all mounts into a mount namespace, and a
disk cannot be unmounted while such a copy exists.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from staticfire.faults.errors import FaultError
from staticfire.faults.linux.machine import LinuxMachine
from staticfire.faults.linux.resources import Resource

SUBNETS = 512  # /24 networks in 198.18.0.0/15
NODES_MAX = 250
ATTEMPTS = 20
INTERFACE = "eth0"  # of a node, in its namespace
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class NetworkError(FaultError):
    """The network cannot be made."""


def enter(namespace: str) -> tuple[str, ...]:
    """Return the command prefix that enters a network namespace."""
    return ("nsenter", f"--net=/run/netns/{namespace}", "--")


def subnet_prefix(number: int) -> str:
    """Return the first three numbers of the addresses of a subnet."""
    return f"198.{18 + number // 256}.{number % 256}"


def subnets_taken(addresses: str) -> set[int]:
    """Return the numbers of subnets in which this machine has an address. `addresses`: `ip -json -4 address`."""
    taken = set()
    for link in json.loads(addresses):
        for info in link.get("addr_info", []):
            first, second, third, _ = map(int, info["local"].split("."))
            if first == 198 and second in (18, 19):
                taken.add((second - 18) * 256 + third)
    return taken


def links_in(addresses: str) -> set[str]:
    return {link["ifname"] for link in json.loads(addresses) if link.get("addr_info")}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNamespace:
    """The network namespace of one node."""

    node: str
    namespace: str
    address: str

    @property
    def prefix(self) -> tuple[str, ...]:
        return enter(self.namespace)


class Network:
    """The network of one run. `host_address` is the address of this machine in it."""

    def __init__(
        self, machine: LinuxMachine, draw: Callable[[int], int] = secrets.randbelow
    ) -> None:
        self._machine = machine
        self._draw = draw
        self._identity = machine.inventory.identity
        self._switch = f"sf{self._identity}-switch"
        self._host_link = f"sf{self._identity}"  # at most 15 characters
        self._made: list[Resource] = []
        self._subnet = ""
        self.nodes: dict[str, NodeNamespace] = {}

    @property
    def host_address(self) -> str:
        return f"{self._subnet}.1"

    async def create(self) -> None:
        """Make the switch, and the link into it. Raises CommandFailed, NetworkError if every subnet is taken."""
        await self._add_namespace(self._switch)
        await self._ip("link add switch type bridge", "link set switch up", inside=self._switch)
        self._will_make("link", self._host_link)
        await self._ip(f"link add {self._host_link} type veth peer name host netns {self._switch}")
        await self._ip("link set host master switch up", inside=self._switch)
        await self._ip(f"link set {self._host_link} up")
        await self._take_subnet()

    async def _take_subnet(self) -> None:
        """Take a free subnet. If two runs take the same one at the same time, both draw again."""
        for _ in range(ATTEMPTS):
            taken = subnets_taken(await self._machine.run(["ip", "-json", "-4", "address"]))
            free = [number for number in range(SUBNETS) if number not in taken]
            if not free:
                break
            subnet = subnet_prefix(free[self._draw(len(free))])
            await self._ip(f"address add {subnet}.1/24 dev {self._host_link}")
            argv = ["ip", "-json", "-4", "address", "show", "to", f"{subnet}.0/24"]
            if links_in(await self._machine.run(argv)) == {self._host_link}:
                self._subnet = subnet
                return
            await self._ip(f"address delete {subnet}.1/24 dev {self._host_link}")
        raise NetworkError("no subnet of 198.18.0.0/15 is free on this machine")

    async def add(self, node: str) -> NodeNamespace:
        """Make a namespace with the next address for a node. Raises NetworkError for a bad name or too many nodes."""
        if not NAME.fullmatch(node) or node in self.nodes or node == "switch":
            raise NetworkError(
                f"node {node!r} cannot have a namespace; allowed: up to 64 letters, digits, dots, "
                "dashes and underscores, each name once, and not 'switch'"
            )
        number = len(self.nodes) + 2
        if len(self.nodes) >= NODES_MAX:
            raise NetworkError(f"node {node!r} is one too many; allowed: {NODES_MAX}")
        found = NodeNamespace(
            node=node,
            namespace=f"sf{self._identity}-{node}",
            address=f"{self._subnet}.{number}",
        )
        self.nodes[node] = found
        await self._add_namespace(found.namespace)
        port = f"port{number}"
        await self._ip(
            f"link add {port} type veth peer name {INTERFACE} netns {found.namespace}",
            f"link set {port} master switch up",
            inside=self._switch,
        )
        await self._ip(
            f"address add {found.address}/24 dev {INTERFACE}",
            f"link set {INTERFACE} up",
            f"route add default via {self.host_address}",
            inside=found.namespace,
        )
        return found

    async def remove(self) -> None:
        """Remove everything that was made. A namespace with processes lives on, without a name, until they end."""
        while self._made:
            await self._machine.remove(self._made[-1])
            self._made.pop()
        self.nodes.clear()

    async def _add_namespace(self, name: str) -> None:
        self._will_make("network namespace", name)
        await self._ip(f"netns add {name}")
        await self._ip("link set lo up", inside=name)

    async def _ip(self, *commands: str, inside: str = "") -> None:
        """Run commands of ip(8), in a namespace or on the machine itself."""
        where = ["-netns", inside] if inside else []
        batch = "".join(f"{command}\n" for command in commands)
        await self._machine.run(["ip", *where, "-batch", "-"], input=batch.encode())

    def _will_make(self, kind: str, name: str) -> None:
        self._made.append(self._machine.will_make(kind, name))
