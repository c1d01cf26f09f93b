"""One continuation, as a pure function of a campaign, a virtual time and a number.

Up to the rewind a continuation equals the original run, bit for bit. From then on every stream of the world draws other
numbers: network, latencies, late timers, costs, torn writes, sizes and pauses of the load. Later faults of the plan are
left out, or drawn again: the same kind at another time, on other targets. The plan's times still heal faults that were
fired before. A continuation without a number draws the numbers of the original; it equals the original, or lacks only
the later faults.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from staticfire.checkers.guarantees.verdict import Finding
from staticfire.faults.model.fault import PlannedFault
from staticfire.faults.plans.plan import redraw
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.draws.campaign import context_of
from staticfire.harness.results.fingerprint import CAUSES, Fingerprint, fingerprint_of
from staticfire.harness.results.run_result import RunResult
from staticfire.harness.runs.simulated_runner import LiveRun, run_simulated

Position = tuple[str | int | None, ...]  # of a finding: key, or topic, broker, queue and group


@dataclass(frozen=True, slots=True, order=True)
class Rewind:
    """A rewind to virtual time `at_ns`. `number` selects the random numbers; None: those of the original.

    `draws_faults`: later faults are drawn again; otherwise they are left out. `keeps_plan`: later faults come as
    planned, which is possible only without a number.
    """

    at_ns: int
    number: int | None
    draws_faults: bool = False
    keeps_plan: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a continuation.

    Attributes:
        violations: number of violations, by anomaly.
        subjects: messages or queues of the recorded violations, by anomaly.
        coverage: counts of the coverage marks that the run reached.
        failed: reason why the run did not end; empty if it ended.
        cpu_s: its CPU time; the first one from a snapshot includes the run up to the snapshot.
    """

    digest: str = ""
    valid: bool | str = "unknown"
    violations: dict[str, int] = field(default_factory=dict)
    subjects: dict[str, list[Position]] = field(default_factory=dict)
    coverage: dict[str, int] = field(default_factory=dict)
    failed: str = ""
    cpu_s: float = field(default=0.0, compare=False)

    @property
    def fingerprint(self) -> Fingerprint | None:
        return fingerprint_of(self.violations)

    def has(self, witness: Finding) -> bool:
        """Whether this outcome has a violation of the same cause about the finding's message or queue."""
        family = next((all_ for all_ in CAUSES.values() if witness.anomaly in all_), None)
        subject = subject_of(witness)
        return any(
            subject in self.subjects.get(anomaly, ()) for anomaly in family or (witness.anomaly,)
        )

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Outcome:
        subjects = {
            name: [tuple(subject) for subject in found]
            for name, found in fields["subjects"].items()
        }
        return cls(**{**fields, "subjects": subjects})


def subject_of(finding: Finding) -> Position:
    if finding.key is not None:
        return (finding.key, finding.topic, None, None, None)
    return (None, finding.topic, finding.broker, finding.queue, finding.group)


def outcome_of(result: RunResult, cpu_s: float = 0.0) -> Outcome:
    subjects: dict[str, list[Position]] = {}
    for finding in result.verdict.findings():
        if finding.judgement == "violation":
            subjects.setdefault(finding.anomaly, []).append(subject_of(finding))
    return Outcome(
        digest=result.digest,
        valid=result.verdict.valid,
        violations=result.verdict.violations(),
        subjects=subjects,
        coverage=dict(result.verdict.coverage),
        cpu_s=cpu_s,
    )


def outcome_of_error(error: BaseException) -> Outcome:
    return Outcome(failed=f"{type(error).__name__}: {error}")


def repeated(campaign: Campaign, rewind: Rewind) -> RunResult:
    """Run a continuation from the start. Raises the errors of runs."""
    return run_simulated(
        campaign, begun=lambda live: live.at(rewind.at_ns, lambda live: diverge(live, rewind))
    )


def diverge(live: LiveRun, rewind: Rewind) -> None:
    """Change the rest of the run, as the rewind says."""
    if rewind.number is None and rewind.keeps_plan:
        return
    campaign, nemesis = live.environment.campaign, live.run.nemesis
    if rewind.number is not None:
        live.world.reseed(f"rewind/{rewind.at_ns}/{rewind.number}")
    random, known = live.world.stream("rest of the plan"), context_of(campaign)
    plan, now_s = nemesis.begun, nemesis.plan_s

    def drawn(planned: PlannedFault) -> PlannedFault | None:
        if not rewind.draws_faults:
            return None
        other = redraw(random, planned, plan, now_s, campaign.time_s, known)
        if other is not None:
            plan.append(other)
        return other

    nemesis.change_rest(drawn)
