"""Virtual time, simulated TCP, disks and processes for asyncio programs; knows nothing of message queues.

The nodes of a `World` are unmodified asyncio programs. They share one interpreter and one event loop object, and one
seed decides everything that happens to them: two runs of a seed are equal, byte for byte.
"""

from staticfire.harness.simulation.disk import DiskOptions, PowerCut, PowerCutReport, SimDisk
from staticfire.harness.simulation.guard import Escape
from staticfire.harness.simulation.host import Host
from staticfire.harness.simulation.process import ExitStatus, SimProcess
from staticfire.harness.simulation.scheduler import SimulationError
from staticfire.harness.simulation.timing import Timing
from staticfire.harness.simulation.world import World

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
