"""The point of no return of a recorded run, as a part of its explanation: curve, jump, and events at the jump."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

from staticfire.checkers.guarantees.verdict import Finding, seconds
from staticfire.faults.plans.catalogue import fault_named
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.continuations.rewind import Outcome, Rewind
from staticfire.harness.continuations.tree import Continuations
from staticfire.harness.explain.event import Event
from staticfire.harness.explain.no_return import (
    BESIDE_NS,
    Curve,
    NoReturn,
    Point,
    find_no_return,
    wilson,
)
from staticfire.harness.explain.recorded_run import NotRepeated, RecordedRun
from staticfire.harness.results.fingerprint import SHOWN_AT_ACK, Fingerprint

LINES_OF_CURVE = 6
EVENTS_AT_JUMP = 3  # in text; JSON has all
NEAR_NS = 10_000_000  # events this close to the jump count as at the jump
BAR = 20  # characters of the bar for a share of 1

Progress = Callable[[int], None]  # takes the number of ended continuations


@dataclass(frozen=True, slots=True, kw_only=True)
class PointOfNoReturn:
    """A part of an explanation. `events` holds those at the jump, oldest first."""

    found: NoReturn
    events: Sequence[Event]
    of: str  # the properties in which a continuation must equal the run
    wall_s: float
    repeated: int
    name: str = "point_of_no_return"

    def lines(self) -> list[str]:
        found = self.found
        count = sum(point.trials for point in found.points)
        return [
            f"no return {self._where()}; {count} continuations, {found.cpu_s:.0f} CPU s",
            *map(_curve_line, _shown(found)),
            *(
                f"  {seconds(event.time_ns):>9}  at the jump: {event.where}{': ' if event.where else ''}{event.text}"
                for event in self.events[:EVENTS_AT_JUMP]
            ),
        ]

    def _where(self) -> str:
        found = self.found
        if found.before_ns is None:
            return "at the start: whatever happens, the run fails like this"
        near = "" if found.is_complete else "; the time was over, --budget allows more"
        return f"between {seconds(found.before_ns)} and {seconds(found.after_ns)}{near}"

    def to_json(self) -> dict[str, object]:
        return {
            **self.found.to_json(),
            "compared_by": self.of,
            "events": [asdict(event) for event in self.events],
            "wall_s": round(self.wall_s, 1),
            "repeated_from_start": self.repeated,
        }


def _shown(found: NoReturn) -> list[Point]:
    """Choose the points to show of a long curve: the sides of the jump, and others spread over the run."""
    sides = {found.before_ns, found.after_ns}
    kept = [point for point in found.points if point.at_ns in sides]
    others = [point for point in found.points if point.at_ns not in sides]
    room = LINES_OF_CURVE - len(kept)
    step = max(1, -(-len(others) // room))
    return sorted([*kept, *others[::step][:room]], key=lambda point: point.at_ns)


def _curve_line(point: Point) -> str:
    low, high = wilson(point.same, point.trials)
    bar = "#" * round(point.share * BAR)
    share = f"{point.same}/{point.trials}"
    return f"  {seconds(point.at_ns):>9}  {share:>5}  [{low:.2f}, {high:.2f}]  {bar}".rstrip()


def point_of_no_return(
    campaign: Campaign,
    run: RecordedRun,
    life: Iterable[Event],
    fingerprint: Fingerprint,
    witness: Finding,
    *,
    is_of_witness: bool,
    jobs: int,
    budget_s: float,
    draws_faults: bool,
    fills: bool,
    progress: Progress,
) -> PointOfNoReturn:
    """Run continuations of a recorded run from many of its times, and locate the jump.

    Args:
        campaign: a campaign of the simulation.
        life: events of the witness.
        witness: the finding to explain.
        is_of_witness: whether a continuation counts only if it also fails at the witness's message or queue.
        jobs: number of processes.
        budget_s: limit of the wall time.
        draws_faults: whether continuations draw the later faults anew, instead of leaving them out.
        fills: whether to sample the whole curve, and not the jump alone.

    Raises NotRepeated.
    """
    started = time.monotonic()
    until = started + budget_s
    ended = 0

    def is_same(outcome: Outcome) -> bool:
        if outcome.fingerprint != fingerprint:
            return False
        return not is_of_witness or outcome.has(witness)

    with Continuations(campaign, jobs) as continuations:

        def sample(rewinds: Sequence[Rewind]) -> Iterator[tuple[Rewind, Outcome]]:
            nonlocal ended
            for rewind, outcome in continuations.outcomes(rewinds, until):
                ended += 1
                progress(ended)
                if rewind.number is None and outcome.digest != run.digest:
                    raise NotRepeated(outcome.digest or outcome.failed)
                yield rewind, outcome

        as_it_was = list(sample([Rewind(0, None)]))
        curve = Curve(sample, is_same, jobs, draws_faults)
        curve.cpu_s = sum(outcome.cpu_s for _, outcome in as_it_was)
        found = find_no_return(
            curve, run.end_ns, moments_of(run), likely_of(run, witness), fills=fills
        )
        repeated = continuations.repeated
    return PointOfNoReturn(
        found=found,
        events=events_at(found, run, life),
        of="fingerprint and witness" if is_of_witness else "fingerprint",
        wall_s=time.monotonic() - started,
        repeated=repeated,
    )


def likely_of(run: RecordedRun, witness: Finding) -> list[int]:
    """Return times beside the fault that the failure seems to follow, and after the finding."""
    bitten = [fault for fault in run.faults if fault["bitten"] and fault["struck_ns"] is not None]
    bitten.sort(key=lambda fault: fault["struck_ns"])
    before = [fault for fault in bitten if fault["struck_ns"] <= witness.time_ns]
    following = before[-1:]
    if witness.anomaly in SHOWN_AT_ACK:
        after = [fault for fault in bitten if fault["struck_ns"] > witness.time_ns]
        destroying = [fault for fault in after if fault_named(fault["kind"]).destructive]
        following = [*(destroying or after)[:1], *following]
    beside = [fault["fired_ns"] + by for fault in following for by in (BESIDE_NS, -BESIDE_NS)]
    return [*beside, witness.time_ns + BESIDE_NS]


def moments_of(run: RecordedRun) -> list[int]:
    """Return the times at which a fault was fired, struck, affected a disk or was healed."""
    names = ("fired_ns", "struck_ns", "healed_ns")
    found = {fault.get(name) for fault in run.faults for name in names}
    found |= {one["at_ns"] for fault in run.faults for one in fault.get("incidents", ())}
    return sorted(time_ns for time_ns in found if time_ns is not None)


def events_at(found: NoReturn, run: RecordedRun, life: Iterable[Event]) -> list[Event]:
    """Return faults, recoveries and events of the witness between the sides of the jump, or next to them."""
    if found.before_ns is None:
        return []
    low, high = found.before_ns - NEAR_NS, found.after_ns + NEAR_NS
    events = [*life, *_of_faults(run), *_of_observations(run)]
    return sorted({event for event in events if low <= event.time_ns <= high})


def _of_faults(run: RecordedRun) -> Iterator[Event]:
    for fault in run.faults:
        where = ", ".join(fault["targets"])
        for name, text in (("fired_ns", "is fired"), ("healed_ns", "is over")):
            if (time_ns := fault.get(name)) is not None:
                yield Event(time_ns=time_ns, where=where, text=f"{fault['kind']} {text}")
        for one in fault.get("incidents", ()):
            text = f"{fault['kind']} strikes, {one['what']}"
            yield Event(time_ns=one["at_ns"], where=one["node"], text=text)
        struck_ns = fault.get("struck_ns")
        if struck_ns is not None and struck_ns != fault.get("fired_ns"):
            yield Event(time_ns=struck_ns, where=where, text=f"{fault['kind']} has struck")


def _of_observations(run: RecordedRun) -> Iterator[Event]:
    for seen in run.observations:
        if seen["kind"] == "recovery":
            text = f"recovers: its log ends at {seen.get('end_offset')}"
            yield Event(time_ns=seen["time_ns"], where=str(seen.get("node", "")), text=text)
