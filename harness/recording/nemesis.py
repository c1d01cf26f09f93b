"""The nemesis: carries out a fault plan and records the outcome of each fault."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from staticfire.checkers.model.history import NEMESIS, HistoryError, Op
from staticfire.faults.model.anchor import Anchor
from staticfire.faults.model.capabilities import Controls, Evidence
from staticfire.faults.model.fault import PlannedFault
from staticfire.faults.plans.catalogue import fault_named
from staticfire.faults.plans.plan import to_data
from staticfire.harness.recording.anchors import AnchorWatch
from staticfire.harness.recording.recorder import Recorder


@dataclass(slots=True, kw_only=True)
class FaultRecord:
    """One fault of a run: planned, fired, proven to have bitten (or not), healed. Times are ns of the run's clock.

    `struck_ns` is the time at which the fault had taken effect. Firing may take a while, as with disks that stall
    before the power is cut.
    """

    planned: PlannedFault
    fired_ns: int | None = None
    struck_ns: int | None = None
    healed_ns: int | None = None
    bitten: bool = False
    evidence: Evidence = field(default_factory=dict)
    error: str | None = None
    # Its effects on disks with their exact times, if the environment knows them: node, at_ns, what, dropped.
    incidents: list[dict[str, Any]] = field(default_factory=list)
    is_left_out: bool = False  # a change of the plan has removed it

    @property
    def is_on(self) -> bool:
        """Whether it was fired and not yet healed. In a run that broke off it stays on."""
        return self.fired_ns is not None and self.healed_ns is None and self.error is None

    @property
    def may_have_bitten(self) -> bool:
        """Whether it may have bitten. Only the heal measures that, so a fault that is on, or failed, may have."""
        return self.bitten or (self.fired_ns is not None and self.healed_ns is None)

    def to_json(self) -> dict[str, object]:
        row = to_data([self.planned])[0]
        return {
            **row,
            "fired_ns": self.fired_ns,
            "struck_ns": self.struck_ns,
            "healed_ns": self.healed_ns,
            "bitten": self.bitten,
            "evidence": self.evidence,
            "error": self.error,
            **({"incidents": self.incidents} if self.incidents else {}),
        }


PUT_OFF_NS = 50_000_000  # pause before the nemesis checks again whether the plan may continue


class Nemesis:
    """Carries out one fault plan.

    Args:
        booting_ns: returns how long servers have been booting so far. That delays the plan, since no fault shall strike
            a cluster that is not up.
        watch: watches for the events at which faults strike.
        load_s: the end of the load. A fault whose event has not come by then does not strike.

    Raises CapabilityMissing if `controls` lack a capability that a fault of the plan needs.
    """

    def __init__(
        self,
        plan: Sequence[PlannedFault],
        controls: Controls,
        recorder: Recorder,
        now_ns: Callable[[], int],
        *,
        booting_ns: Callable[[], int] = lambda: 0,
        watch: AnchorWatch | None = None,
        load_s: float = math.inf,
    ) -> None:
        for planned in plan:
            controls.require(fault_named(planned.kind).needs)
        self.records = [FaultRecord(planned=planned) for planned in plan]
        self._controls = controls
        self._recorder = recorder
        self._now_ns = now_ns
        self._booting_ns = booting_ns
        self._watch = watch or AnchorWatch(recorder)
        self._load_s = load_s
        self._booted_ns = 0  # before the plan began
        self._start_ns = 0
        self._is_begun = False
        self._sleepers: dict[
            asyncio.Future[None], bool
        ] = {}  # -> whether it ends when the plan changes
        self._cut_short = False

    async def run(self) -> None:
        """Fire and heal every fault of the plan; return when the last one is healed."""
        self._start_ns = self._now_ns()
        self._is_begun = True
        self._booted_ns = self._booting_ns()
        await asyncio.gather(*(self._strike(record) for record in self.records))

    def late_ns(self) -> int:
        """Return by how much boots have delayed the plan so far, in ns. Call it only once the plan has begun."""
        return self._booting_ns() - self._booted_ns

    def cut_short(self) -> None:
        """Heal the faults that are on now, and fire no others."""
        self._cut_short = True
        for sleeper in self._sleepers:
            _wake(sleeper)

    def now_on(self) -> tuple[str, ...]:
        """Return the kinds of fault that were fired and are not yet healed."""
        return tuple(record.planned.kind for record in self.records if record.is_on)

    @property
    def plan_s(self) -> float:
        """Return the time of the plan, in seconds; 0 before it has begun."""
        if not self._is_begun:
            return 0.0
        return max(self._now_ns() - self._start_ns - self.late_ns(), 0) / 1e9

    @property
    def begun(self) -> list[PlannedFault]:
        """Return the faults that were fired."""
        return [record.planned for record in self.records if record.fired_ns is not None]

    def change_rest(self, draw: Callable[[PlannedFault], PlannedFault | None]) -> None:
        """Replace each fault not yet fired by the one that `draw` returns, of the same kind; None removes it."""
        for record in self.records:
            if record.fired_ns is None:
                planned = draw(record.planned)
                record.is_left_out = planned is None
                record.planned = planned or record.planned
        self.records = [record for record in self.records if not record.is_left_out]
        for sleeper, waits_to_strike in self._sleepers.items():
            if waits_to_strike:  # wakes up, and reads the plan again
                _wake(sleeper)

    async def _strike(self, record: FaultRecord) -> None:
        while True:
            planned = record.planned
            await self._sleep_until(planned.at_s, may_change=True)
            if self._cut_short or record.is_left_out:
                return
            if planned is record.planned:
                break
        fault = fault_named(planned.kind)
        if planned.after is not None:
            came = await self._event(planned.after)
            if not came or self._cut_short or record.is_left_out:
                return
            planned = record.planned
        try:
            record.fired_ns = self._now_ns()
            self._note(record, "fire", "firing", {})
            fired = await fault.fire(self._controls, planned)
            record.struck_ns = self._now_ns()
            self._note(record, "start", "fired", fired)
            self._watch.note_fault("struck", planned.fault_id)
            await self._sleep_until(self._until_s(record))
            record.evidence = await fault.heal(self._controls, planned, fired)
            record.bitten = bool(record.evidence["bitten"])
            record.healed_ns = self._now_ns()
            if record.bitten:
                record.struck_ns = (
                    await fault.struck_ns(self._controls, planned) or record.struck_ns
                )
            self._note(record, "stop", "healed", record.evidence)
            self._watch.note_fault("healed", planned.fault_id)
        except Exception as error:
            record.error = f"{type(error).__name__}: {error}"
            self._note(record, "stop", "failed", {"error": record.error})

    def _until_s(self, record: FaultRecord) -> float:
        """Return the time of the heal, in seconds of the plan."""
        if record.planned.after is None or record.fired_ns is None:
            return record.planned.until_s
        fired_s = (record.fired_ns - self._start_ns - self.late_ns()) / 1e9
        return fired_s + record.planned.duration_s

    async def _event(self, anchor: Anchor) -> bool:
        """Wait for the event and its delay; return False if it has not come by the end of the load."""
        loop = asyncio.get_running_loop()
        came: asyncio.Future[None] = loop.create_future()
        stop = self._watch.begin(anchor, lambda: _wake(came))
        left_ns = self._start_ns + self._load_s * 1e9 + self.late_ns() - self._now_ns()
        self._sleepers[came] = False
        try:
            async with asyncio.timeout(None if math.isinf(left_ns) else max(left_ns, 0) / 1e9):
                await came
        except TimeoutError:
            return False
        finally:
            del self._sleepers[came]
            stop()
        await self._sleep(int(anchor.delay_ms * 1e6), may_change=False)
        return True

    async def _sleep_until(self, at_s: float, *, may_change: bool = False) -> None:
        """Sleep until this time of the plan or, where the plan may change, until it changes."""
        late_ns = self.late_ns()
        due_ns = self._start_ns + int(at_s * 1e9) + late_ns
        await self._sleep(due_ns - self._now_ns(), may_change)
        while (more_ns := self.late_ns() - late_ns) > 0 and not self._cut_short:
            late_ns += more_ns
            await self._sleep(max(more_ns, PUT_OFF_NS), may_change)

    async def _sleep(self, delay_ns: int, may_change: bool) -> None:
        if self._cut_short:
            return
        loop = asyncio.get_running_loop()
        sleeper: asyncio.Future[None] = loop.create_future()
        self._sleepers[sleeper] = may_change
        timer = loop.call_later(max(delay_ns, 0) / 1e9, _wake, sleeper)
        try:
            await sleeper
        finally:
            timer.cancel()
            del self._sleepers[sleeper]

    def _note(self, record: FaultRecord, verb: str, phase: str, evidence: Evidence) -> None:
        planned = record.planned
        value = {
            "fault_id": planned.fault_id,
            "kind": planned.kind,
            "targets": list(planned.targets),
            "phase": phase,
            "evidence": evidence,
        }
        self._recorder.record(NEMESIS, "info", f"{verb}_{planned.kind}", value)


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


def records_of(plan: Iterable[PlannedFault], ops: Iterable[Op]) -> list[FaultRecord]:
    """Return the faults of a run that broke off, as far as its history records them.

    Raises HistoryError for an op of the nemesis that does not record the outcome of its fault.
    """
    records = {planned.fault_id: FaultRecord(planned=planned) for planned in plan}
    for op in ops:
        if op.process != NEMESIS:
            continue
        try:
            record = records.get(op.value.get("fault_id", -1))
            if record is not None:
                _take_over(record, op)
        except (KeyError, TypeError) as error:
            raise HistoryError(
                f"op {op.index} ({op.f}) does not record the outcome of its fault: {error}"
            ) from error
    return list(records.values())


def _take_over(record: FaultRecord, op: Op) -> None:
    """Copy the content of this op of the nemesis into the record. Raises KeyError, TypeError."""
    phase = op.value.get("phase")
    if phase == "firing":
        record.fired_ns = record.struck_ns = op.time_ns
    elif phase == "fired":
        record.struck_ns = op.time_ns
        if record.fired_ns is None:  # histories of earlier versions do not say when it began
            record.fired_ns = op.time_ns
    elif phase == "healed":
        record.healed_ns = op.time_ns
        record.evidence = op.value["evidence"]
        record.bitten = bool(record.evidence["bitten"])
    elif phase == "failed":
        record.error = str(op.value["evidence"]["error"])
