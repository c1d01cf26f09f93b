"""A machine provider gives every node of a run its machine, breaks machines on demand, and leaves nothing behind."""

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
    """What can be broken on the machines of a provider, beside the processes there."""

    network: NetworkControl | None = None
    disk: DiskControl | None = None
    clock: ClockControl | None = None


class MachineProvider(Protocol):
    """The machines of one run. `lacks` names what their faults cannot do here, with the reason: see `Controls`."""

    lacks: Mapping[str, str]

    @property
    def python(self) -> str:
        """The interpreter on the machines."""
        ...

    @property
    def code(self) -> tuple[str, ...]:
        """The folders on the machines that hold our packages."""
        ...

    async def up(
        self, nodes: Sequence[str], *, servers: Sequence[str], needs: Set[str]
    ) -> dict[str, Machine]:
        """Make a machine for each node; those of servers have disks that can be broken, if this provider has any.

        `needs` are those of the faults to come (`Fault.needs`), and `cpp_library.NEED`.
        """
        ...

    def controls(self, environment: RealEnvironment) -> MachineControls:
        """For the machines that are up."""
        ...

    async def down(self) -> None:
        """Remove everything that `up` made, also half of it."""
        ...


@runtime_checkable
class Vanishing(Protocol):
    """A provider whose servers may go away by themselves, all of them and for good."""

    @property
    def gone(self) -> asyncio.Future[str]:
        """Done once they have, with a sentence that says so. For machines that are up."""
        ...


@runtime_checkable
class Rerouting(Protocol):
    """A provider whose nodes reach each other through a proxy between them."""

    def reach(self, node: str, address: str, kind: ServerKind) -> str:
        """The address that a node gets in place of the real address of a server. For machines that are up."""
        ...
