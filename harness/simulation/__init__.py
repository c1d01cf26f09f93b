"""Virtual time, simulated TCP, disks and processes for asyncio programs. This folder does not depend on message queues.

The nodes of a `World` are unmodified asyncio programs. They share one interpreter and one event loop object, and one
seed decides everything that happens to them. Two runs of a seed are equal, byte for byte.
"""

from staticfire.harness.simulation.disk.disk import DiskOptions, PowerCut, PowerCutReport, SimDisk
from staticfire.harness.simulation.hosts.guard import Escape
from staticfire.harness.simulation.hosts.host import Host
from staticfire.harness.simulation.hosts.process import ExitStatus, SimProcess
from staticfire.harness.simulation.hosts.world import World
from staticfire.harness.simulation.scheduling.scheduler import SimulationError
from staticfire.harness.simulation.scheduling.timing import Timing

__all__ = [
    "DiskOptions",
    "Escape",
    "ExitStatus",
    "Host",
    "PowerCut",
    "PowerCutReport",
    "SimDisk",
    "SimProcess",
    "SimulationError",
    "Timing",
    "World",
]
