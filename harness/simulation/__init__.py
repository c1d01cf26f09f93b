"""Virtual time, simulated TCP, disks and processes for asyncio programs; knows nothing of message queues.

The nodes of a `World` are unmodified asyncio programs. They share one interpreter and one event loop object, and one
seed decides everything that happens to them: two runs of a seed are equal, byte for byte.
"""

from harness.simulation.disk import DiskOptions, PowerCut, PowerCutReport, SimDisk
from harness.simulation.guard import Escape
from harness.simulation.host import Host
from harness.simulation.process import ExitStatus, SimProcess
from harness.simulation.scheduler import SimulationError
from harness.simulation.timing import Timing
from harness.simulation.world import World

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
