"""The interface through which `staticfire look` reads the memory of a simulated server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # a system that runs only on real machines needs no simulation
    from staticfire.harness.simulation.hosts.process import SimProcess


class ServerMemory(Protocol):
    """Reads parts of a server's memory.

    Attributes:
        parts: names of the parts, in display order.
    """

    @property
    def parts(self) -> Sequence[str]: ...

    def read(self, process: SimProcess) -> Mapping[str, object]:
        """Return the present parts of this server by name: a row, or a list of rows, each a table of values.

        A server that is still opening has no parts.
        """
        ...
