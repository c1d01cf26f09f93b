"""A fleet gives every node of a run its machine, breaks machines on demand, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from harness.environments.place import Place


class Fleet(Protocol):
    """The machines of one run. `lacks` names what their faults cannot do here, with the reason: see `Controls`."""

    lacks: Mapping[str, str]

    async def up(self, nodes: Sequence[str], *, servers: Sequence[str]) -> dict[str, Place]:
        """Make a machine for each node; those of servers have disks that can be broken, if this fleet has any."""
        ...

    async def down(self) -> None:
        """Remove everything that `up` made, also half of it."""
        ...
