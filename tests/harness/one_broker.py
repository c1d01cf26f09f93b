"""What an environment of one broker has in common in tests of the end of a run."""

from __future__ import annotations

from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.recording.recorder import Recorder
from staticfire.harness.simulation.hosts.world import World


class OneBroker:
    """Its disk is never lost; what it records has the times of the world."""

    campaign = draw_campaign(1, {"followers": (0,), "queues": 1})
    topology = campaign.topology()

    def __init__(self, world: World) -> None:
        self._world = world
        self.recorder = Recorder(self.now_ns)

    def now_ns(self) -> int:
        return self._world.now_ns

    def is_lost(self, node: str) -> bool:
        return False

    def booting_ns(self) -> int:
        return 0
