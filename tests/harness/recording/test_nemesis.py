"""The nemesis: every fault of the plan is injected and healed on time, even if others fail."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from typing import ClassVar

import pytest

from staticfire.checkers.model.history import NEMESIS
from staticfire.faults.model.anchor import Anchor
from staticfire.faults.model.capabilities import Controls, Evidence
from staticfire.faults.model.fault import ClusterContext, Fault, FaultParams, PlannedFault
from staticfire.faults.plans.catalogue import FAULTS
from staticfire.harness.recording.nemesis import FaultRecord, Nemesis, records_of
from staticfire.harness.recording.recorder import Recorder
from staticfire.harness.simulation.hosts.world import World


class Scripted(Fault):
    """Does nothing but say when; `params` may ask it to fail or not to bite."""

    name: ClassVar[str] = "scripted"
    summary: ClassVar[str] = "for this test"
    needs: ClassVar[tuple[str, ...]] = ()

    def draw(self, random: Random, situation: ClusterContext) -> FaultParams | None:
        return None

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        if planned.params.get("fails") == "fire":
            raise OSError("no such device")
        return {"mark": planned.fault_id}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        if planned.params.get("fails") == "heal":
            raise KeyError("gone")
        assert fired == {"mark": planned.fault_id}
        return {"bitten": planned.params.get("bites", True)}


@pytest.fixture(autouse=True)
def _scripted_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAULTS, Scripted.name, Scripted())


def planned(fault_id: int, at_s: float, duration_s: float, **params: object) -> PlannedFault:
    return PlannedFault(
        fault_id=fault_id,
        kind="scripted",
        at_s=at_s,
        duration_s=duration_s,
        targets=("broker-a-0",),
        params=params,
    )


def strike(*plan: PlannedFault) -> tuple[Recorder, list[FaultRecord]]:
    """Carry out a plan that starts 10 virtual seconds into the run."""
    world = World(1)
    recorder = Recorder(lambda: world.now_ns)
    nemesis = Nemesis(plan, Controls(), recorder, lambda: world.now_ns)

    async def main() -> None:
        await asyncio.sleep(10.0)
        await nemesis.run()

    world.run(main)
    return recorder, nemesis.records


def test_a_plan_stands_still_while_servers_boot() -> None:
    """From second 12 to 16 a server boots: what was due at 13 comes at 17, and the rest is put off, too."""
    world = World(1)
    recorder = Recorder(lambda: world.now_ns)

    def booting_ns() -> int:
        return min(max(world.now_ns - 12 * 10**9, 0), 4 * 10**9)

    plan = (planned(1, 1.0, 5.0), planned(2, 3.0, 1.0))
    nemesis = Nemesis(plan, Controls(), recorder, lambda: world.now_ns, booting_ns=booting_ns)

    async def main() -> None:
        await asyncio.sleep(10.0)
        await nemesis.run()

    world.run(main)
    assert diary(recorder) == ["11 fired 1", "17 fired 2", "18 healed 2", "20 healed 1"]
    assert nemesis.late_ns() == 4 * 10**9


def diary(recorder: Recorder) -> list[str]:
    """`second phase id` of each op but those that say that a fault begins."""
    return [
        f"{op.time_ns / 1e9:.0f} {op.value['phase']} {op.value['fault_id']}"
        for op in recorder.ops
        if op.value["phase"] != "firing"
    ]


def test_faults_fire_and_heal_by_the_time_of_the_load() -> None:
    recorder, _ = strike(planned(1, 1.0, 5.0), planned(2, 3.0, 1.0))
    assert diary(recorder) == ["11 fired 1", "13 fired 2", "14 healed 2", "16 healed 1"]
    assert {(op.process, op.type) for op in recorder.ops} == {(NEMESIS, "info")}
    assert [op.f.removesuffix("_scripted") for op in recorder.ops] == [
        *("fire", "start", "fire", "start", "stop", "stop")
    ]


def test_a_fault_strikes_at_its_event_or_not_at_all() -> None:
    """Fault 2 strikes a second after fault 1 has been healed; no message ever comes for fault 3."""
    world = World(1)
    recorder = Recorder(lambda: world.now_ns)
    plan = (
        planned(1, 1.0, 2.0),
        replace(planned(2, 0.0, 5.0), after=Anchor(event="healed", fault=1, delay_ms=1000.0)),
        replace(planned(3, 0.0, 1.0), after=Anchor(event="ack", key="p0-0")),
    )
    nemesis = Nemesis(plan, Controls(), recorder, lambda: world.now_ns, load_s=6.0)
    world.run(nemesis.run)
    assert diary(recorder) == ["1 fired 1", "3 healed 1", "4 fired 2", "9 healed 2"]
    assert nemesis.records[2].fired_ns is None
    assert nemesis.records[2].to_json()["after"] == {"event": "ack", "key": "p0-0"}


def test_an_event_that_has_not_come_does_not_hold_up_a_run_that_is_cut_short() -> None:
    world = World(1)
    plan = (replace(planned(1, 0.0, 1.0), after=Anchor(event="ack", key="p0-0")),)
    nemesis = Nemesis(plan, Controls(), Recorder(lambda: 0), lambda: world.now_ns, load_s=600.0)

    async def main() -> None:
        running = asyncio.ensure_future(nemesis.run())
        await asyncio.sleep(1.0)
        nemesis.cut_short()
        await running

    world.run(main)
    assert nemesis.records[0].fired_ns is None
    assert world.now_ns < 2 * 10**9


def test_a_record_says_what_came_of_its_fault() -> None:
    _, [record, idle] = strike(planned(1, 1.0, 5.0), planned(2, 3.0, 1.0, bites=False))
    assert (record.bitten, idle.bitten) == (True, False)
    assert record.fired_ns is not None
    assert record.healed_ns is not None
    assert record.healed_ns - record.fired_ns == pytest.approx(5e9, rel=0.01)
    assert record.to_json()["evidence"] == {"bitten": True}


@pytest.mark.parametrize("where", ["fire", "heal"])
def test_an_error_in_one_fault_is_written_down_and_the_others_go_on(where: str) -> None:
    recorder, [broken, sound] = strike(planned(1, 1.0, 1.0, fails=where), planned(2, 3.0, 1.0))
    assert broken.error is not None
    assert broken.healed_ns is None
    assert not broken.bitten
    assert (sound.error, sound.bitten) == (None, True)
    failed = [op for op in recorder.ops if op.value["phase"] == "failed"]
    assert [op.value["evidence"] for op in failed] == [{"error": broken.error}]
    read_back = records_of([broken.planned], recorder.ops)
    assert [record.error for record in read_back] == [broken.error]


def test_records_can_be_read_back_from_a_history() -> None:
    plan = (planned(1, 1.0, 5.0), planned(2, 3.0, 1.0, bites=False), planned(3, 9.0, 1.0))
    recorder, records = strike(*plan)
    broken_off = [op for op in recorder.ops if op.time_ns < 18e9]  # before the third
    first, second, third = records_of(plan, broken_off)
    assert (first.bitten, second.bitten, third.bitten) == (True, False, False)
    assert first.healed_ns == records[0].healed_ns
    assert (third.fired_ns, third.healed_ns) == (None, None)


def test_a_fault_that_had_begun_when_the_run_broke_off_is_on() -> None:
    """It was firing, or it was not asked yet whether it bit; histories of earlier versions lack the beginning."""
    recorder, [whole] = strike(planned(1, 1.0, 5.0))
    fire, start, stop = recorder.ops
    for broken_off in ([fire], [fire, start], [start]):
        [record] = records_of([whole.planned], broken_off)
        assert (record.is_on, record.fired_ns, record.struck_ns) == (True, 11 * 10**9, 11 * 10**9)
    [record] = records_of([whole.planned], [fire, start, stop])
    assert (record.is_on, record.bitten) == (False, True)


@pytest.mark.parametrize("new_s", [1.5, 6.0])
def test_what_was_not_fired_may_be_moved_or_left_out(new_s: float) -> None:
    world = World(1)
    recorder = Recorder(lambda: world.now_ns)
    plan = (planned(0, 0.5, 3.0), planned(1, 2.0, 1.0), planned(2, 3.0, 1.0))
    nemesis = Nemesis(plan, Controls(), recorder, lambda: world.now_ns)

    def draw(one: PlannedFault) -> PlannedFault | None:
        return None if one.fault_id == 2 else planned(1, new_s, 1.0)

    def change(_: object) -> None:
        assert nemesis.plan_s == pytest.approx(1.0, abs=0.01)
        assert nemesis.begun == [plan[0]]
        nemesis.change_rest(draw)

    world.scheduler.at(1_000_000_000, change)
    world.run(nemesis.run)
    first, second = nemesis.records
    assert first.healed_ns == pytest.approx(3.5e9, abs=1e7)
    assert second.fired_ns == pytest.approx(new_s * 1e9, abs=1e7)
    assert second.planned.at_s == new_s
