"""Composes all checkers into one verdict: history, observations and facts of a run in, RunVerdict out.

Checkers are independent: one that crashes is unknown, and the findings of the others remain. A run below its floors
(too few acknowledgements, too few faults that bit, no drain, a fault that failed or was not healed, a history that is
not complete) proves nothing: it may be invalid, but it is never valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

from staticfire.checkers.agreement.agreement import AGREEMENT
from staticfire.checkers.agreement.contradictions import contradictions
from staticfire.checkers.anomalies.anomaly import check_found
from staticfire.checkers.anomalies.catalogue import ANOMALIES
from staticfire.checkers.availability.availability import LIVENESS
from staticfire.checkers.availability.availability_gaps import AVAILABILITY_GAPS
from staticfire.checkers.availability.node_exits import NODE_EXITS
from staticfire.checkers.availability.stuck_producers import STUCK_PRODUCERS
from staticfire.checkers.cycles.cycles import CYCLES
from staticfire.checkers.cycles.txn_reads import TXN_READS
from staticfire.checkers.cycles.txn_writes import TXN_WRITES
from staticfire.checkers.engine.engine import failure, judge_columns
from staticfire.checkers.engine.evidence import lacks_evidence, with_evidence
from staticfire.checkers.engine.kernel import Checker, Context, Kernel, undrained
from staticfire.checkers.features.contents import CONTENTS_KEPT
from staticfire.checkers.features.delays import DELAYS
from staticfire.checkers.features.delivery_waits import DELIVERY_WAITS
from staticfire.checkers.features.filters import FILTERS
from staticfire.checkers.features.forwarding import FORWARDING
from staticfire.checkers.features.late_deliveries import LATE_DELIVERIES
from staticfire.checkers.features.message_times import MESSAGE_TIMES
from staticfire.checkers.features.ordered_keys import ORDERLY, SHARDING_KEYS
from staticfire.checkers.features.refusals import REFUSALS
from staticfire.checkers.features.request_reply import REQUESTS
from staticfire.checkers.features.retries import RETRIES
from staticfire.checkers.features.transactions import TRANSACTIONS
from staticfire.checkers.groups.broadcasting import BROADCASTING
from staticfire.checkers.groups.commit_times import COMMIT_TIMES
from staticfire.checkers.groups.groups import GROUPS
from staticfire.checkers.groups.listeners import LISTENERS
from staticfire.checkers.groups.ownership import OWNERSHIP
from staticfire.checkers.groups.resets import RESETS
from staticfire.checkers.groups.shares import SHARES
from staticfire.checkers.groups.subscriptions import SUBSCRIPTIONS
from staticfire.checkers.guarantees.facts import FaultFacts, Mode, RunFacts
from staticfire.checkers.guarantees.promises import LossPromises
from staticfire.checkers.guarantees.verdict import Finding, Validity, Verdict, combine
from staticfire.checkers.log.batches import BATCHES
from staticfire.checkers.log.causality import CAUSALITY
from staticfire.checkers.log.commit_log import LOG_HOLES
from staticfire.checkers.log.delayed_order import DELAYED_ORDER
from staticfire.checkers.log.duplication import DUPLICATION
from staticfire.checkers.log.loss import LOSS
from staticfire.checkers.log.message_queries import LOOK_UPS
from staticfire.checkers.log.offsets import DRAINED_OFFSETS, OFFSETS
from staticfire.checkers.log.order import ORDER
from staticfire.checkers.log.polls import POLLS
from staticfire.checkers.log.provenance import PROVENANCE
from staticfire.checkers.log.readability import READABILITY
from staticfire.checkers.log.recovery import RECOVERY
from staticfire.checkers.log.shared_ids import SHARED_IDS
from staticfire.checkers.log.storage_order import STORAGE_ORDER
from staticfire.checkers.log.store_times import STORE_TIMES
from staticfire.checkers.measures.coverage import COVERAGE, coverage_of
from staticfire.checkers.measures.latency import LATENCY
from staticfire.checkers.measures.recovery_times import RECOVERY_TIMES
from staticfire.checkers.measures.reportable import below_floor, has_floor, reportable
from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.columns import Columns, Names
from staticfire.checkers.model.history import Op
from staticfire.checkers.model.timeline import Timeline
from staticfire.checkers.model.typed_fields import check_types
from staticfire.checkers.verdicts.node_names import with_nodes
from staticfire.checkers.white_box.internal_errors import INTERNAL_ERRORS
from staticfire.checkers.white_box.queue_entries import QUEUE_ENTRIES
from staticfire.checkers.white_box.replicas import REPLICA_PREFIX
from staticfire.checkers.white_box.resources import RESOURCES
from staticfire.checkers.white_box.route_contents import ROUTE_CONTENTS
from staticfire.checkers.white_box.routes import NAME_SERVER_SWITCH, ROUTES
from staticfire.checkers.white_box.send_status import DURABLE_BEFORE_ACK, WEAK_STATUSES
from staticfire.checkers.white_box.server_tables import SERVER_TABLES

CORE = (LOSS, LOG_HOLES, PROVENANCE, CAUSALITY, DUPLICATION, ORDER, STORAGE_ORDER, OFFSETS, POLLS)
SEMANTICS = (FILTERS, DELAYS, RETRIES, TRANSACTIONS, ORDERLY, BROADCASTING, CONTENTS_KEPT)
KERNELS = (
    *CORE,
    *SEMANTICS,
    MESSAGE_TIMES,
    STORE_TIMES,
    LISTENERS,
    OWNERSHIP,
    COMMIT_TIMES,
    DELIVERY_WAITS,
    LATENCY,
    RECOVERY_TIMES,
    RECOVERY,
    AGREEMENT,
    COVERAGE,
)
ALL_CHECKERS: tuple[Checker, ...] = (
    *(kernel.as_checker() for kernel in KERNELS),
    DRAINED_OFFSETS,
    LIVENESS,
    AVAILABILITY_GAPS,
    STUCK_PRODUCERS,
    GROUPS,
    SHARES,
    LATE_DELIVERIES,
    SHARDING_KEYS,
    BATCHES,
    SHARED_IDS,
    DELAYED_ORDER,
    RESETS,
    REQUESTS,
    SUBSCRIPTIONS,
    FORWARDING,
    TXN_READS,
    TXN_WRITES,
    CYCLES,
    NODE_EXITS,
    LOOK_UPS,
    READABILITY,
    REFUSALS,
    DURABLE_BEFORE_ACK,
    WEAK_STATUSES,
    REPLICA_PREFIX,
    QUEUE_ENTRIES,
    ROUTES,
    ROUTE_CONTENTS,
    SERVER_TABLES,
    RESOURCES,
    INTERNAL_ERRORS,
    NAME_SERVER_SWITCH,
)
check_found(ANOMALIES, {checker.name: checker.anomalies for checker in ALL_CHECKERS})
CLIENT_CHECKERS = tuple(checker for checker in ALL_CHECKERS if not checker.needs_observations)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdict:
    """The verdict of a whole run."""

    valid: Validity
    verdicts: tuple[Verdict, ...]
    below_floors: tuple[str, ...]  # the reasons why the run proves nothing, one sentence each
    not_applicable: tuple[str, ...]  # checkers that do not apply to this profile
    faults_bitten: tuple[str, ...]  # fault ids
    faults_not_bitten: tuple[str, ...]
    counts: Mapping[str, int]  # sends by outcome, deliveries
    mode: Mode = "hardened"  # the promises depend on it
    # how often the run reached each coverage mark
    coverage: Mapping[str, int] = field(default_factory=dict)
    caveats: tuple[str, ...] = ()  # what a valid verdict does not cover, one sentence each
    # anomaly -> the share of queues x groups x time in which no fault excuses it (reportable.py)
    reportable: Mapping[str, float] = field(default_factory=dict)

    def findings(self) -> tuple[Finding, ...]:
        """Return all findings, violations first."""
        found = (finding for verdict in self.verdicts for finding in verdict.findings)
        return tuple(sorted(found, key=_severity))

    def violations(self) -> dict[str, int]:
        """Return the number of violations of each violated anomaly."""
        found = {f.anomaly for f in self.findings() if f.judgement == "violation"}
        return {
            name: of.counts[name] for of in self.verdicts for name in of.counts if name in found
        }

    def unanswered(self) -> tuple[str, ...]:
        """Return the reasons why the run proves nothing and why checkers are unknown, one sentence each."""
        reasons = (f"{v.checker}: {v.reason}" for v in self.verdicts if v.valid == "unknown")
        return (*self.below_floors, *reasons)

    def to_json(self) -> dict[str, object]:
        return {
            "valid": self.valid,
            "verdicts": [verdict.to_json() for verdict in self.verdicts],
            "below_floors": list(self.below_floors),
            "not_applicable": list(self.not_applicable),
            "faults_bitten": list(self.faults_bitten),
            "faults_not_bitten": list(self.faults_not_bitten),
            "counts": dict(self.counts),
            "mode": self.mode,
            "coverage": dict(self.coverage),
            "caveats": list(self.caveats),
            "reportable": dict(self.reportable),
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Read the output of `to_json`. Raises TypeError, KeyError, ValueError or AttributeError on other input."""
        lists = ("below_floors", "not_applicable", "faults_bitten", "faults_not_bitten")
        verdict = cls(
            valid=fields["valid"],
            verdicts=tuple(map(Verdict.from_json, fields["verdicts"])),
            counts=fields["counts"],
            mode=fields.get("mode", "hardened"),
            coverage=fields.get("coverage", {}),
            caveats=tuple(fields.get("caveats", ())),
            reportable=fields.get("reportable", {}),
            **{name: tuple(fields[name]) for name in lists},
        )
        check_types(verdict, cls, "verdict")
        return verdict


def _severity(finding: Finding) -> tuple[object, ...]:
    return (finding.judgement != "violation", finding.time_ns, finding.sort_key())


def check_run(
    ops: Sequence[Op],
    observations: Sequence[Mapping[str, object]],
    facts: RunFacts,
    checkers: Sequence[Checker] = ALL_CHECKERS,
) -> RunVerdict:
    """Return the verdict of a run. Raises HistoryError if the ops break the conventions of a history."""
    return check_columns(*build_columns(ops), observations, facts, checkers)


def check_columns(
    columns: Columns,
    timeline: Timeline,
    observations: Sequence[Mapping[str, object]],
    facts: RunFacts,
    checkers: Sequence[Checker] = ALL_CHECKERS,
) -> RunVerdict:
    """Return the verdict of a run whose history is in columns."""
    context = Context(
        facts=facts,
        timeline=timeline,
        promises=LossPromises(facts),
        observations=observations,
    )
    by_kernel, first = judge_columns(columns, context, kernels_of(asked_of(checkers, context)))
    return run_verdict(checkers, columns, context, by_kernel, first.totals)


def asked_of(checkers: Sequence[Checker], context: Context) -> list[Checker]:
    """Return the checkers that apply to this run, that lack their evidence, or that fail in `applies`."""
    return [checker for checker in checkers if _applies(checker, context) is not False]


def _applies(checker: Checker, context: Context) -> bool | Exception:
    try:
        return bool(checker.applies(context)) or lacks_evidence(checker, context)
    except Exception as error:  # any error becomes this checker's verdict
        return error


def run_verdict(
    checkers: Sequence[Checker],
    columns: Columns,
    context: Context,
    by_kernel: Mapping[str, Verdict],
    totals: Mapping[str, int],
) -> RunVerdict:
    """Return the verdict of a run after its kernels ran. `columns` must hold at least the `rows` of each checker."""
    answer = partial(_check, columns)
    return conclude_run(checkers, context, by_kernel, answer, totals, columns.names)


def _check(columns: Columns, checker: Checker, context: Context) -> Verdict:
    return checker.check(columns, context)


def conclude_run(
    checkers: Sequence[Checker],
    context: Context,
    by_kernel: Mapping[str, Verdict],
    answer: Callable[[Checker, Context], Verdict],
    totals: Mapping[str, int],
    names: Names,
) -> RunVerdict:
    """Combine the verdicts of kernels and of other checkers into the verdict of the run.

    Args:
        checkers: all checkers of the run, whether they apply or not.
        context: of the run.
        by_kernel: the verdict of each kernel by its name.
        answer: returns the verdict of a checker without a kernel; it may raise.
        totals: sends by outcome, deliveries.
        names: those of the columns.
    """
    facts, asked = context.facts, asked_of(checkers, context)
    shares = reportable(context)
    answers = [(checker, _verdict(checker, by_kernel, answer, context)) for checker in asked]
    for _, verdict in answers:
        shares |= verdict.reportable
    nodes = context.timeline.nodes
    verdicts = tuple(
        with_nodes(_unless_excused(checker, verdict, shares), nodes) for checker, verdict in answers
    )
    below_floors = tuple(_below_floors(totals.get("acked", 0), context))
    if facts.unchecked:
        below_floors += tuple(contradictions(facts, context.timeline, names))
    floor: Validity = "unknown" if below_floors else True
    return RunVerdict(
        valid=combine((*(verdict.valid for verdict in verdicts), floor)),
        verdicts=verdicts,
        below_floors=below_floors,
        not_applicable=tuple(checker.name for checker in checkers if checker not in asked),
        faults_bitten=tuple(fault.fault_id for fault in facts.faults if _is_proven(fault, facts)),
        faults_not_bitten=tuple(
            fault.fault_id for fault in facts.faults if not _is_proven(fault, facts)
        ),
        counts=totals,
        mode=facts.mode,
        coverage=coverage_of(verdicts, context.observations, facts),
        caveats=tuple(_caveats(facts)),
        reportable=dict(sorted(shares.items())),
    )


def _unless_excused(checker: Checker, verdict: Verdict, shares: Mapping[str, float]) -> Verdict:
    """Return the verdict, but unknown instead of valid if faults excuse nearly all that the checker could find."""
    asked = [name for name in checker.anomalies if has_floor(name, verdict.counts)]
    reason = below_floor(asked, shares)
    if reason is None or verdict.valid is not True:
        return verdict
    return replace(verdict, valid="unknown", reason=reason)


def kernels_of(checkers: Sequence[Checker]) -> list[Kernel]:
    """Return the kernels of the checkers that have one."""
    return [checker.kernel for checker in checkers if checker.kernel is not None]


def _verdict(
    checker: Checker,
    by_kernel: Mapping[str, Verdict],
    answer: Callable[[Checker, Context], Verdict],
    context: Context,
) -> Verdict:
    if checker.needs_observations and context.facts.unread:
        return Verdict(checker=checker.name, valid="unknown", reason=context.facts.unread)
    if isinstance(error := _applies(checker, context), Exception):
        return Verdict(checker=checker.name, valid="unknown", reason=failure(error))
    is_kernel = checker.kernel is not None
    verdict = by_kernel[checker.name] if is_kernel else _answered(answer, checker, context)
    return with_evidence(verdict, checker, context)


def _answered(
    answer: Callable[[Checker, Context], Verdict], checker: Checker, context: Context
) -> Verdict:
    try:
        return answer(checker, context)
    except Exception as error:  # any error becomes this checker's verdict
        return Verdict(checker=checker.name, valid="unknown", reason=failure(error))


def _below_floors(acked: int, context: Context) -> Iterator[str]:
    facts, floors = context.facts, context.facts.floors
    if facts.gone:
        yield facts.gone
    if acked < floors.acked_min:
        yield f"{acked} acknowledged sends; the floor is {floors.acked_min}"
    bitten = sum(_is_proven(fault, facts) for fault in facts.faults)
    if facts.faults and bitten < floors.bitten_min:
        yield f"{bitten} of {len(facts.faults)} planned faults bit; the floor is {floors.bitten_min}"
    missing = undrained(context)
    if floors.drained and missing is not None:
        torn = " (the history is torn)" if facts.torn else ""
        yield f"not drained{torn}: {missing}"
    elif facts.torn:
        yield "the history is torn: what came after its last whole op is not known"
    if facts.unfinished:
        yield "the run did not finish: nothing says that this history is all of it"
    for fault in facts.faults:
        if fault.error is not None:
            yield f"fault {fault.fault_id} ({fault.kind}) failed: {fault.error}"
        elif fault.bitten_ns is not None and fault.healed_ns is None and not fault.permanent:
            yield f"fault {fault.fault_id} ({fault.kind}) was never healed"


def _caveats(facts: RunFacts) -> Iterator[str]:
    if facts.unchecked:
        yield "no checksums: history, observations and facts may not belong together"
    if not facts.faults:
        yield (
            "no fault was injected: durability, failover, recovery and redelivery after a failure were not tested"
        )


def _is_proven(fault: FaultFacts, facts: RunFacts) -> bool:
    """Whether a fault certainly bit. If it failed or was still active when the run ended early, that is not certain."""
    is_open = fault.healed_ns is None and (facts.unfinished or fault.error is not None)
    return fault.bitten_ns is not None and not is_open
