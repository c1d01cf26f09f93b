"""Tables of brokers, recorded while brokers forget, lose or do not copy them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.faults.model.capabilities import Controls, Evidence
from staticfire.faults.model.fault import ClusterContext, Fault, FaultParams, PlannedFault
from staticfire.faults.plans.catalogue import FAULTS, register
from staticfire.harness.campaign.file import typed_options
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.results.run_result import RunResult
from staticfire.harness.rocketmq.observers.server_tables import TableReader
from staticfire.harness.runs.simulated_runner import run_simulated
from staticfire.system_under_test.broker.metadata.subscription_groups import SubscriptionGroups
from staticfire.system_under_test.broker.replication import metadata_restore
from staticfire.system_under_test.broker.replication.metadata_restore import MetadataRestore
from staticfire.system_under_test.broker.replication.slave_sync import SlaveSync
from staticfire.system_under_test.protocol.bodies import SubscriptionGroupConfig


class ReplacedDisk(Fault):
    name = "replaced-disk"
    summary = simulated = on_machines = "a master starts again with an empty disk"
    proof = "number of bytes wiped"
    affects = ("stops", "forgets", "empties")
    destroys = "disk"
    needs = ("process", "disk.wipe")
    duration_s = (1.0, 2.0)
    roles = ("leader",)
    in_swarms: ClassVar[bool] = False

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        return FaultParams(targets=(context.topology.leaders[0].node,))

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        [node] = planned.targets
        await controls.process.kill(node)
        return {"bitten": await controls.disk.wipe(node) > 0}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        await controls.process.start(planned.targets[0])
        return fired


@pytest.fixture(autouse=True)
def replaced_disk() -> Iterator[None]:
    register(ReplacedDisk())
    yield
    del FAULTS[ReplacedDisk.name]


GIVEN: dict[str, Any] = {
    "coordinators": 1,
    "followers": (1,),
    "replication": "sync",
    "flush": "sync",
    "mode": "hardened",
    "time_s": 40.0,
    "acks_min": 1,
    "broker_properties": (),
}
PLAN = [
    {
        "kind": "group-change",
        "at_s": 4.0,
        "duration_s": 25.0,
        "targets": [],
        "params": {"retry_queues": 5},
    },
    {"kind": "replaced-disk", "at_s": 24.0, "duration_s": 1.0, "targets": ["broker-a-0"]},
]


def run() -> RunResult:
    given = {**GIVEN, "workload": "delayed", **typed_options({"plan": PLAN}, "the test")}
    return run_simulated(draw_campaign(3, given))


def tables_of(result: RunResult) -> Verdict:
    return next(of for of in result.verdict.verdicts if of.checker == "server_tables")


def forgets(*_: Any) -> None:
    """Instead of a method that takes tables over."""


def earlier(known: Mapping[str, object], _theirs: Mapping[str, object]) -> dict[str, object]:
    """Instead of the choice of the later progress."""
    return dict(known)


async def copies_nothing(*_: Any) -> None:
    """Instead of a step of a slave."""


@pytest.mark.slow
def test_a_master_with_a_new_disk_gets_its_tables_back() -> None:
    result = run()

    restored = [of for of in result.observations if of["kind"] == "restored_table"]
    assert {of["table"] for of in restored} == {"groups", "offsets", "delays"}
    assert tables_of(result).valid is True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "method", "instead", "anomaly"),
    [
        (SubscriptionGroups, "take_newer", forgets, "table_lost"),
        (MetadataRestore, "_advance_offsets", forgets, "table_lost"),
        (metadata_restore, "later_delay_offsets", earlier, "table_lost"),
        (SlaveSync, "_copy_groups", copies_nothing, "table_uncopied"),
        (SlaveSync, "_copy_offsets", copies_nothing, "table_uncopied"),
        (SlaveSync, "_copy_delay_offsets", copies_nothing, "table_uncopied"),
    ],
)
def test_what_is_not_taken_over_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, where: object, method: str, instead: Any, anomaly: str
) -> None:
    monkeypatch.setattr(where, method, instead)

    assert anomaly in {of.anomaly for of in tables_of(run()).findings}


def test_a_change_counts_once_its_turn_is_over() -> None:
    """A turn that saves a group blocks until the disk has it; a power cut in between leaves nothing of it."""
    groups = SimpleNamespace(_groups={}, _version=SimpleNamespace(counter=0, timestamp=0))
    tables = SimpleNamespace(
        groups=groups,
        delay_offsets=SimpleNamespace(path="delays"),
        offsets_file=SimpleNamespace(_file=SimpleNamespace(path="offsets")),
    )
    parts = SimpleNamespace(
        tables=tables,
        neighbours=SimpleNamespace(_slave_sync=SimpleNamespace(master_address=None)),
    )
    broker: Any = SimpleNamespace(
        _parts=parts,
        _registers=SimpleNamespace(is_set=lambda: True),
        store=SimpleNamespace(end_offset=1),
    )
    seen: list[list[str]] = []

    def observe(_kind: str, *, table: str, entries: Mapping[str, Any], **_: Any) -> None:
        if table == "groups":
            seen.append(sorted(entries))

    server: Any = SimpleNamespace(observe=observe, now_ns=lambda: 0, file=lambda *_: b"")
    process: Any = SimpleNamespace(incarnation=1)
    reader = TableReader(server, "n0", "b", process, is_leader=True, broker=broker)
    reader.read()
    groups._groups = {"g": SubscriptionGroupConfig(group_name="g")}
    reader.read()
    assert seen == [[]]
    reader.read()
    assert seen == [[], ["g"]]
