"""Tries a candidate: whether its run fails in the same way, under its own seed or a few others."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from staticfire.checkers.op_kinds.catalogue import SENDS
from staticfire.harness.campaign.campaign import SEED_MAX, Campaign
from staticfire.harness.campaign.ops import PlannedOp
from staticfire.harness.results.fingerprint import (
    Fingerprint,
    fault_of,
    fingerprint_of_run,
    witness_of,
)
from staticfire.harness.results.run_result import RunResult

SEEDS = 4  # seeds of a candidate: its own, and the following ones


@dataclass(frozen=True, slots=True)
class Moments:
    """The times at which a fault that struck fired and was over, in seconds of the load."""

    fired_s: float
    over_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """The events that show the failure, in seconds of the load."""

    shown_s: float
    fault_id: int | None  # of the fault that the failure followed
    nodes: frozenset[str] = frozenset()  # replicas that hold the message or queue that failed
    key: str | None = None
    send_s: float | None = None  # when the message was sent, and when it was answered
    ack_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A campaign that was run, and the results of its run."""

    campaign: Campaign
    digest: str
    sends: int  # begun by producers; each message of a batch counts
    fingerprint: Fingerprint | None
    ops: tuple[PlannedOp, ...] = ()  # begun by producers
    struck: Mapping[int, Moments] = field(default_factory=dict)  # by fault id, those that bit
    witness: Witness | None = None
    seeds: int = SEEDS  # number of seeds under which a candidate is tried


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a candidate.

    Attributes:
        found: the first seed that shows the fingerprint; None if none does.
        not_run: the reason that the candidate could not be run; "" if it was.
        runs: number of runs.
        cpu_s: CPU time of the runs.
    """

    found: Trial | None
    not_run: str
    runs: int
    cpu_s: float


def run_trial(campaign: Campaign) -> Trial:
    """Run a campaign. Raises the errors of runs."""
    from staticfire.harness.runs.simulated_runner import run_simulated

    result = run_simulated(campaign)
    return Trial(
        campaign=campaign,
        digest=result.digest,
        sends=sum(op.f in SENDS and op.type == "invoke" for op in result.ops),
        fingerprint=fingerprint_of_run(result),
        ops=result.begun,
        struck=_struck(result),
        witness=_witness(result),
    )


def try_candidate(campaign: Campaign, wanted: Fingerprint, seeds: int = SEEDS) -> Answer:
    """Run the candidate under its seed and the following ones until one shows the fingerprint."""
    started = time.process_time()
    runs = 0
    found: Trial | None = None
    not_run = ""
    for candidate in _reseeded(campaign, seeds):
        runs += 1
        try:
            trial = run_trial(candidate)
        except Exception as error:  # a candidate that cannot be run does not show the failure
            not_run = f"{type(error).__name__}: {error}"
            break
        if wanted.is_shown_by(trial.fingerprint):
            found = trial
            break
    cpu_s = time.process_time() - started
    return Answer(found=found, not_run=not_run, runs=runs, cpu_s=cpu_s)


def try_near(campaign: Campaign) -> Answer:
    """Run a campaign once; return its results."""
    started = time.process_time()
    try:
        found, not_run = run_trial(campaign), ""
    except Exception as error:
        found, not_run = None, f"{type(error).__name__}: {error}"
    cpu_s = time.process_time() - started
    return Answer(found=found, not_run=not_run, runs=1, cpu_s=cpu_s)


def _reseeded(campaign: Campaign, seeds: int) -> Iterator[Campaign]:
    for number in range(seeds):
        yield replace(campaign, seed=(campaign.seed + number) % SEED_MAX)


def _struck(result: RunResult) -> dict[int, Moments]:
    def seconds(time_ns: int) -> float:
        return (time_ns - result.load_start_ns) / 1e9

    return {
        record.planned.fault_id: Moments(seconds(record.fired_ns), seconds(record.healed_ns))
        for record in result.faults
        if record.bitten
        and record.fired_ns is not None
        and record.struck_ns is not None
        and record.healed_ns is not None
    }


def _witness(result: RunResult) -> Witness | None:
    fingerprint = fingerprint_of_run(result)
    finding = witness_of(result.verdict, fingerprint)
    if finding is None:
        return None
    last = fault_of(finding, result.faults, result.campaign.topology())
    times = {
        op.type: (op.time_ns - result.load_start_ns) / 1e9
        for op in result.ops
        if op.f in SENDS and finding.key is not None and op.value.get("key") == finding.key
    }
    return Witness(
        shown_s=(finding.time_ns - result.load_start_ns) / 1e9,
        fault_id=None if last is None else last.planned.fault_id,
        nodes=frozenset(
            one.node for one in result.campaign.topology().replicas_of(finding.broker or "")
        ),
        key=finding.key,
        send_s=times.get("invoke"),
        ack_s=times.get("ok"),
    )
