"""Liveness after heal: sends to every living broker work again, and each group's lag reaches zero.

**not_serving**: the last probe of a living broker was not acknowledged. **not_drained**: a group did not
reach lag 0 within the drain's bound. A broker that was never probed, or a group that was never drained,
makes the verdict unknown.
"""

from __future__ import annotations

from collections.abc import Iterator

from checkers.columns import Columns
from checkers.kernel import Checker, Context, no_rows
from checkers.promises import judge
from checkers.timeline import Drain, Probe
from checkers.verdict import Finding, Tally, Verdict


def check_liveness(_columns: Columns, context: Context) -> Verdict:
    last = {probe.broker: probe for probe in context.timeline.probes}
    findings = [*_not_serving(context, last), *_not_drained(context)]
    missing = "; ".join([*_not_probed(context, last), *_never_drained(context)])
    tally = Tally.of(findings, probes=len(context.timeline.probes))
    return Verdict(
        checker="liveness",
        valid=False if findings else ("unknown" if missing else True),
        counts=tally.counts,
        findings=tally.findings,
        reason=missing or None,
    )


def _not_serving(context: Context, last: dict[str, Probe]) -> Iterator[Finding]:
    for broker in context.facts.living_brokers:
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
            yield Finding(
                anomaly="not_drained",
                judgement=judge(context.facts.mode, "not_drained"),
                op_index=drain.op_index,
                time_ns=drain.time_ns,
                detail=f"{drain.lag} messages still unread when the bound was reached",
                topic=topic,
                group=group,
            )


def _not_probed(context: Context, last: dict[str, Probe]) -> Iterator[str]:
    for broker in context.facts.living_brokers:
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
