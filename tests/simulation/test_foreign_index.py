"""An operator restores the index of another broker while a node is down: the broker rebuilds it from its log."""

from __future__ import annotations

import pytest

from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.environments.simulated.environment import SimulationEnvironment
from staticfire.harness.runs.simulated_runner import run_simulated
from tests.support.disks import replace_folder


def test_an_index_of_another_log_is_rebuilt_and_everything_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start_now = SimulationEnvironment.start_now
    restored: list[int] = []

    def start(environment: SimulationEnvironment, name: str) -> None:
        node = environment.nodes[name]
        if name == "broker-a-0" and node.incarnations and not node.is_alive and not restored:
            replace_folder(
                environment.nodes["broker-b-0"].host.disk, node.host.disk, "/store/index"
            )
            restored.append(environment.now_ns())
        start_now(environment, name)

    monkeypatch.setattr(SimulationEnvironment, "start_now", start)
    stop = PlannedFault(
        fault_id=0, kind="graceful-stop", at_s=20.0, duration_s=2.0, targets=("broker-a-0",)
    )
    options = {
        "followers": (0, 0),
        "replication": "none",
        "flush": "sync",
        "queues": 2,
        "time_s": 30.0,
        "log_file_bytes": 65536,
        "broker_properties": (),
        "coordinators": 1,
        "think_ms": 60.0,
        "faults": ("graceful-stop",),
        "plan": (stop,),
    }
    result = run_simulated(draw_campaign(3, options))
    assert len(restored) == 1
    assert result.verdict.valid is True, result.verdict.findings()
    assert result.verdict.coverage["rebuilt the index"] == 1
    assert result.verdict.coverage["found by key"] > 100
