"""The interface of a machine provider: gives every node of a run its machine, breaks it, and removes all traces."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from staticfire.faults.model.capabilities import ClockControl, DiskControl, NetworkControl
from staticfire.faults.proxy.core.servers import ServerKind
from staticfire.harness.machines.machine import Machine

if TYPE_CHECKING:
    from staticfire.harness.environments.real.environment import RealEnvironment


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineControls:
    """Controls of a provider's machines, beside those of the processes there."""

    network: NetworkControl | None = None
    disk: DiskControl | None = None
    clock: ClockControl | None = None


class MachineProvider(Protocol):
    """The machines of one run. `lacks` has the needs of faults that they cannot meet, with reasons; see `Controls`."""

    lacks: Mapping[str, str]

    @property
    def python(self) -> str:
        """Return the Python interpreter on the machines."""
        ...

    @property
    def code(self) -> tuple[str, ...]:
        """Return the folders on the machines that hold our packages."""
        ...

    async def up(
        self, nodes: Sequence[str], *, servers: Sequence[str], needs: Set[str]
    ) -> dict[str, Machine]:
        """Make a machine for each node; those of servers have disks that can be broken, if this provider has any.

        `needs` are those of the faults to come (`Fault.needs`), and `cpp_library.NEED`.
        """
        ...

    def controls(self, environment: RealEnvironment) -> MachineControls:
        """Return the controls of machines that are up."""
        ...

    async def down(self) -> None:
        """Remove everything that `up` made or began to make."""
        ...


@runtime_checkable
class Vanishing(Protocol):
    """A provider whose cluster may disappear by itself, for good."""

    @property
    def gone(self) -> asyncio.Future[str]:
        """Return a future that gets one sentence once the cluster has gone. For machines that are up."""
        ...


@runtime_checkable
class Rerouting(Protocol):
    """A provider whose nodes reach each other through a proxy between them."""

    def reach(self, node: str, address: str, kind: ServerKind) -> str:
        """Return the address that a node uses in place of a server's real address. For machines that are up."""
        ...
