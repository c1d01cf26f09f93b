"""Counterfactuals of a failed run: the run without one fault or with one fault moved.

For a variant that passes, it shows the first op that differs from the failed run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from typing import Any

from staticfire.checkers.guarantees.verdict import seconds
from staticfire.checkers.model.history import Op, encode_op
from staticfire.faults.errors import FaultError
from staticfire.harness.campaign.campaign import SEED_MAX, Campaign, CampaignError
from staticfire.harness.draws.limits import check_campaign
from staticfire.harness.explain.recorded_run import NotRepeated
from staticfire.harness.results.fingerprint import Fingerprint, fingerprint_of
from staticfire.harness.worker_processes import WorkerPool, ended_futures

SEEDS = 3  # seeds for each change: the run's own and those that follow it
SHIFT_S = 1.0
LINES_MAX = 5  # in text; JSON has all


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One fault of the plan left out, or moved by `by_s`."""

    kind: str
    at_s: float
    by_s: float | None
    campaign: Campaign

    @property
    def text(self) -> str:
        if self.by_s is None:
            return f"without {self.kind} at {self.at_s:.3f} s of the load"
        later = "later" if self.by_s > 0 else "earlier"
        return f"{self.kind} at {self.at_s:.3f} s {abs(self.by_s):g} s {later}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The outcome of one run with a change.

    `difference` holds its first op that the failed run lacks, and vice versa.
    """

    fingerprint: Fingerprint | None
    difference: tuple[str, str, int] | None = None
    failed: str = ""


@dataclass(slots=True)
class Row:
    """The runs with one change."""

    change: Change
    ended: list[Ended] = field(default_factory=list)

    def count(self, wanted: Fingerprint) -> tuple[int, int, int]:
        """Return the numbers of ended runs, of those without violations, and of those that fail as the run did."""
        whole = [one for one in self.ended if not one.failed]
        valid = sum(one.fingerprint is None for one in whole)
        return len(whole), valid, sum(one.fingerprint == wanted for one in whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterfactuals:
    """A part of an explanation."""

    wanted: Fingerprint
    rows: Sequence[Row]
    is_complete: bool
    name: str = "counterfactuals"

    def lines(self) -> list[str]:
        shown = sorted(self.rows, key=self._rank)[:LINES_MAX]
        lines = [f"if        {self._text(row)}" for row in shown]
        if (nearest := self._nearest()) is not None:
            change, (ours, theirs, time_ns) = nearest
            lines.append(
                f"differs   first at {seconds(time_ns)} from {change.text}, which passes: {ours}; there {theirs}"
            )
        if not self.is_complete:
            lines.append("note      the time was over, --budget allows more")
        return lines

    def _rank(self, row: Row) -> tuple[bool, int, float]:
        """Sort changes that help first, and faults left out before faults moved."""
        whole, _, same = row.count(self.wanted)
        return not whole or same == whole, row.change.by_s is not None, row.change.at_s

    def _text(self, row: Row) -> str:
        whole, valid, same = row.count(self.wanted)
        others = whole - valid - same
        parts = [f"valid {valid} of {whole}"] if valid or not whole else []
        parts += [f"fails like this {same} of {whole}"] if same else []
        parts += [f"fails otherwise {others} of {whole}"] if others else []
        return f"{row.change.text}: {', '.join(parts)}"

    def _nearest(self) -> tuple[Change, tuple[str, str, int]] | None:
        """Return the passing run that equals the failed one for the longest time."""
        passing = [
            (row.change, one.difference)
            for row in self.rows
            for one in row.ended
            if one.fingerprint is None and one.difference is not None
        ]
        return max(passing, key=lambda pair: pair[1][2], default=None)

    def to_json(self) -> dict[str, Any]:
        nearest = self._nearest()
        return {
            "rows": [self._row_json(row) for row in self.rows],
            "is_complete": self.is_complete,
            "first_divergence": None
            if nearest is None
            else {
                "from": nearest[0].text,
                "time_ns": nearest[1][2],
                "ours": nearest[1][0],
                "theirs": nearest[1][1],
            },
        }

    def _row_json(self, row: Row) -> dict[str, object]:
        whole, valid, same = row.count(self.wanted)
        return {
            "change": row.change.text,
            "kind": row.change.kind,
            "at_s": row.change.at_s,
            "by_s": row.change.by_s,
            "runs": whole,
            "valid": valid,
            "same": same,
            "could_not_be_run": [one.failed for one in row.ended if one.failed],
        }


def changes_of(campaign: Campaign) -> Iterator[Change]:
    """Yield the changes: each fault left out, then each earlier and later, without changes that a run refuses."""
    plan = campaign.plan
    for planned in plan:
        rest = tuple(one for one in plan if one is not planned)
        kinds = tuple(dict.fromkeys(one.kind for one in rest))
        changed = replace(campaign, plan=rest, faults=kinds)
        yield Change(kind=planned.kind, at_s=planned.at_s, by_s=None, campaign=changed)
    for by_s in (-SHIFT_S, SHIFT_S):
        for planned in plan:
            moved = replace(planned, at_s=round(planned.at_s + by_s, 3))
            changed = replace(
                campaign, plan=tuple(moved if one is planned else one for one in plan)
            )
            try:
                check_campaign(changed)
            except (CampaignError, FaultError):
                continue
            yield Change(kind=planned.kind, at_s=planned.at_s, by_s=by_s, campaign=changed)


def ended(campaign: Campaign, ops: Sequence[Op] | None) -> Ended:
    """Run a change; compare its ops with those of the failed run if they are given."""
    from staticfire.harness.runs.simulated_runner import run_simulated

    try:
        result = run_simulated(campaign)
    except Exception as error:  # a change that cannot be run is not a counterfactual
        return Ended(fingerprint=None, failed=f"{type(error).__name__}: {error}")
    return Ended(
        fingerprint=fingerprint_of(result.verdict.violations()),
        difference=None if ops is None else first_difference(ops, result.ops),
    )


def first_difference(ours: Sequence[Op], theirs: Sequence[Op]) -> tuple[str, str, int] | None:
    """Return the first ops in which two histories differ, as text, and the earlier time; None if they are equal."""
    for one, other in zip(ours, theirs, strict=False):
        if encode_op(one) != encode_op(other):
            return _op_text(one), _op_text(other), min(one.time_ns, other.time_ns)
    return None


def _op_text(op: Op) -> str:
    key = op.value.get("key") or op.value.get("kind") or ""
    return " ".join(filter(None, (op.node or "nemesis", op.f, op.type, str(key))))


def counterfactuals_of(
    campaign: Campaign,
    ops: Sequence[Op],
    wanted: Fingerprint,
    *,
    jobs: int,
    until: float,
    progress: Callable[[int], None],
) -> Counterfactuals:
    """Run each change under a few seeds.

    Args:
        ops: of the failed run.
        until: end of the search, by `time.monotonic`.

    Raises NotRepeated.
    """
    rows = [Row(change) for change in changes_of(campaign)]
    pool = WorkerPool(jobs)
    futures: dict[Future[Ended], Row | None] = {}  # None: of the run itself
    ended_count = 0
    try:
        futures[pool.submit(ended, campaign, ops)] = None
        for number in range(SEEDS):
            for row in rows:
                seed = (campaign.seed + number) % SEED_MAX
                changed = replace(row.change.campaign, seed=seed)
                futures[pool.submit(ended, changed, None if number else ops)] = row
        progress(ended_count)
        for ended_count, future in enumerate(ended_futures(futures, until), start=1):
            one, row_of = _result(future), futures[future]
            if row_of is not None:
                row_of.ended.append(one)
            elif one.difference is not None:
                raise NotRepeated(one.difference[0])
            progress(ended_count)
    finally:
        pool.end()
    return Counterfactuals(wanted=wanted, rows=rows, is_complete=ended_count == len(futures))


def _result(future: Future[Ended]) -> Ended:
    try:
        return future.result()
    except BrokenProcessPool:
        return Ended(fingerprint=None, failed="its process was killed")
