"""The face through which `staticfire look` reads the memory of a simulated server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # systems that run on real machines only need no simulation
    from staticfire.harness.simulation.hosts.process import SimProcess


class ServerMemory(Protocol):
    """Reads what a system keeps in the memory of a server.

    Attributes:
        parts: names of the parts, in the order in which they are shown.
    """

    @property
    def parts(self) -> Sequence[str]: ...

    def read(self, process: SimProcess) -> Mapping[str, object]:
        """The parts that this server has at this instant by name: a row, or a list of rows, each a table of values.

        A server that is still opening has none.
        """
        ...
