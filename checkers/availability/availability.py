"""Liveness after the heal: sends to every living broker work again, and each group's lag reaches zero.

**not_serving**: the last probe of a living broker was not acknowledged. **not_drained**: a group did not reach lag 0
within the drain's bound. This is allowed if the next record for the group was changed by bit rot, and a replica that
may have had an intact copy is gone for good, because the other replicas wait for its answer. If a broker was never
probed, or a group was never drained, the verdict is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator

from staticfire.checkers.engine.kernel import Checker, Context, no_rows
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.guarantees.fault_effects import EMPTIES, ROTS
from staticfire.checkers.guarantees.judgement import Judgement
from staticfire.checkers.guarantees.promises import judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict
from staticfire.checkers.model.columns import Columns
from staticfire.checkers.model.timeline import Drain, Probe


def check_liveness(_columns: Columns, context: Context) -> Verdict:
    last = {probe.broker: probe for probe in context.timeline.probes}
    findings = [*_not_serving(context, last), *_not_drained(context)]
    missing = "; ".join([*_not_probed(context, last), *_never_drained(context)])
    is_violated = any(finding.judgement is Judgement.VIOLATION for finding in findings)
    tally = Tally.of(findings, probes=len(context.timeline.probes))
    return Verdict(
        checker="liveness",
        valid=False if is_violated else ("unknown" if missing else True),
        counts=tally.counts,
        findings=tally.findings,
        reason=missing or None,
    )


def _not_serving(context: Context, last: dict[str, Probe]) -> Iterator[Finding]:
    for broker in context.facts.living_sets:
        probe = last.get(broker)
        if probe is not None and probe.type != "ok":
            yield Finding(
                anomaly="not_serving",
                judgement=judge(context.facts.mode, "not_serving"),
                op_index=probe.op_index,
                time_ns=probe.time_ns,
                detail=f"the last probe after heal answered {probe.error or probe.type}",
                broker=broker,
            )


def _not_drained(context: Context) -> Iterator[Finding]:
    for group, topic, drain in _drains(context):
        if drain is not None and not drain.complete:
            detail = f"{drain.lag} messages still unread when {_when_given_up(drain)}"
            judgement = judge(context.facts.mode, "not_drained")
            if _waits_for_copies(context, drain):
                detail += "; the next record was changed, and a replica that may have a copy is gone for good"
                judgement = Judgement.ALLOWED
            yield Finding(
                anomaly="not_drained",
                judgement=judgement,
                op_index=drain.op_index,
                time_ns=drain.time_ns,
                detail=detail,
                topic=topic,
                group=group,
            )


def _when_given_up(drain: Drain) -> str:
    if drain.still_s is None:
        return "the bound was reached"
    return f"nothing had moved for {drain.still_s} s; a broker served no sends, so the bound was not waited for"


def _waits_for_copies(context: Context, drain: Drain) -> bool:
    """Whether each queue with a lag stops at a changed record of which a lost replica may have had a copy."""
    behind = [(queue, end) for queue, end in drain.ends.items() if end.committed < end.max_offset]
    return bool(behind) and all(
        _lost_replica(context.facts, queue.stream)
        and not _changed(context.facts, queue.stream).isdisjoint(
            found.key
            for look_up in context.timeline.look_ups
            if (look_up.topic, look_up.broker) == (queue.topic, queue.home)
            for found in look_up.found
            if (found.queue, found.queue_offset, found.in_queue)
            == (queue.partition, end.committed, False)
        )
        for queue, end in behind
    )


def _lost_replica(facts: RunFacts, broker: str) -> bool:
    replicas = facts.replica_sets.get(broker, ())
    return any(
        fault.permanent and EMPTIES in fault.effects and fault.bitten_ns is not None
        for fault in facts.faults
        if not set(replicas).isdisjoint(fault.targets)
    )


def _changed(facts: RunFacts, broker: str) -> set[str]:
    """Return the keys of messages whose records bit rot has changed on a replica."""
    replicas = facts.replica_sets.get(broker, ())
    return {
        record.key
        for fault in facts.faults
        if ROTS in fault.effects and fault.bitten_ns is not None
        if not set(replicas).isdisjoint(fault.targets)
        for record in fault.records
    }


def _not_probed(context: Context, last: dict[str, Probe]) -> Iterator[str]:
    for broker in context.facts.living_sets:
        if broker not in last:
            yield f"broker {broker} was never probed"


def _never_drained(context: Context) -> Iterator[str]:
    for group, topic, drain in _drains(context):
        if drain is None:
            yield f"group {group} on {topic} was never drained"


def _drains(context: Context) -> Iterator[tuple[str, str, Drain | None]]:
    for group, topics in sorted(context.facts.groups.items()):
        for topic in topics:
            yield group, topic, context.timeline.drains_of(group, topic)


LIVENESS = Checker(
    name="liveness",
    anomalies=("not_serving", "not_drained"),
    check=check_liveness,
    rows=no_rows,
)
