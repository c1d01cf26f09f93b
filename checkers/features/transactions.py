"""Transactions: groups receive only committed messages, and brokers check transactions whose end they do not know.

To *check* a transaction, a broker asks a producer for its end. A *half* is the message before its end is known.

**rolled_back_visible**: a group received a message whose transaction was rolled back, or never decided; or its producer
had left the end to the check, and no producer had answered "commit" by then. Only the producers' answers show this. If
the history has no `check_back` at all, producers do not report them, and the verdict is unknown (`ends_unknown`).

**unresolved_transaction**: a transaction stays open. There are four cases. (A transaction that ended as `ok` and is
never seen is `lost`.)

* A broker stored the half with SEND_OK, its producer left the end to the check and would have answered "commit", and a
  group has read everything without the message.
* The producer never decided or left the end to the check, and no broker checked the transaction, although the cluster
  was at rest (rest.py) for a round of checks after the half was due for one, and brokers asked producers about other
  transactions later. If a half names a time in which brokers must not check it, it is due in the round after both this
  time and the configured one. The same holds after a check that was not the last configured one, if all answers had
  been "unknown". For a hardened broker it suffices that nothing prevented its checks for so long (`check_rounds.py`),
  and that it had checks left even if all checks were lost that a fault may have dropped.
* The outcome of the send is unknown, a broker checked the transaction, a producer answered "commit" without a fault
  near the answer, and a group has read all queues of the topic without the message, at least a round of checks and two
  requests later. Excused by a fault of the broker that asked, and by damage that excuses the loss of a message that
  this broker had acknowledged at that time. If the client does not name this broker, each that may have asked counts.
  Outside the simulation a busy broker refuses an answer and asks again, so there this case counts only while the broker
  had checks left.
* The producer had committed it, no broker checked it, and a broker stored the message at least two requests later, by
  its store time. Allowed if faults of the broker or the producer near the end may have delayed it until then; skipped
  if a clock of the broker was wrong.

**check_too_early**: a broker checked a transaction before the configured time, or before the time that its half names.
Allowed if the clock of the broker that checked was stepped.

**checked_too_often**: a broker checked a transaction without need. There are three cases.

* It checked more often than configured, for each half that the send may have stored. Allowed if a leader died in this
  time and may have lost its progress, or if the producer died before it could report its number of attempts. If the
  leader's disk lost nothing, the death allows only as many further rounds as the leader had not recorded.
* It checked again after the transaction was over, or twice in a round (`needless_checks.py`).
* It checked a transaction whose send had failed without storing a half. One more finding covers the whole run: brokers
  checked transactions that no producer of the run had sent.

Cannot see: a transaction whose half no broker acknowledged or checked, unless its message appears; checks that never
reached a producer; a check of a transaction that its producer had rolled back.

Source: TransactionalMessageServiceImpl of Apache RocketMQ 4.9; bug #544, a half that was skipped in the time in which a
broker may not check it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from staticfire.checkers.derived.rest import spans_at_rest
from staticfire.checkers.derived.wall_clocks import (
    brokers_stepped_ns,
    on_run_clock,
)
from staticfire.checkers.engine.kernel import Context, Kernel, finding_at, queue_of
from staticfire.checkers.engine.screening import is_among
from staticfire.checkers.features.check_rounds import ASKED_AGAIN, ON_ITS_WAY, Open, must_be_asked
from staticfire.checkers.features.delays import CLOCK_ROUGHNESS_NS, clocks_stepped
from staticfire.checkers.features.needless_checks import (
    checked_again,
    is_committed,
    loses_disk,
    put_back_since,
)
from staticfire.checkers.features.retries import WRITTEN_LATE_NS
from staticfire.checkers.guarantees.excuses.excuses import Window
from staticfire.checkers.guarantees.promises import FOREVER_NS, NS_PER_S, Judgement, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict
from staticfire.checkers.model.columns import (
    UNKNOWN,
    Columns,
    Ints,
    LogKey,
    Mask,
    MessageEvents,
    Outcome,
    Transaction,
)
from staticfire.checkers.model.event_times import began_latest
from staticfire.checkers.model.intervals import Span
from staticfire.checkers.model.timeline import CheckBack

ANOMALIES = (
    "rolled_back_visible",
    "unresolved_transaction",
    "check_too_early",
    "checked_too_often",
)
LATE_REQUESTS = 2  # requests until a broker has stored a message that its producer committed


def tally_transactions(columns: Columns, context: Context) -> Tally:
    """Judge whole messages (partition key: message)."""
    sends = columns.sends
    halves = sends.where(sends.transaction != Transaction.NONE)
    if not len(halves):
        return Tally()
    checks = _checks_by_key(context)
    asked = {
        row: of_key
        for row, message in enumerate(halves.message.tolist())
        if (of_key := checks.get(columns.names.key(message) or ""))
    }
    left = _first_deliveries_of_left(columns, halves)
    findings = [
        *_visible(columns, context, halves),
        *(_undecided(columns, context, left, checks) if checks else ()),
        *_unresolved(columns, context, halves),
        *_answered(columns, context, halves, asked),
        *(_never_asked(columns, context, halves, asked) if checks else ()),
        *_given_up_early(columns, context, halves, asked),
        *_checked(columns, context, halves, asked),
        *(_stored_late(columns, context, halves, asked) if checks else ()),
    ]
    return Tally.of(
        findings,
        transactions=len(halves),
        committed=int(np.count_nonzero(halves.transaction == Transaction.COMMIT)),
        rolled_back=int(np.count_nonzero(halves.transaction == Transaction.ROLLBACK)),
        checked_back=len(asked),
        checked_again=sum(len(of_key) > 1 for of_key in asked.values()),
        ends_unknown=0 if checks else len(left),
    )


def _checks_by_key(context: Context) -> dict[str, list[CheckBack]]:
    checks: dict[str, list[CheckBack]] = {}
    for check in context.timeline.check_backs:
        checks.setdefault(check.key, []).append(check)
    return checks


def _visible(columns: Columns, context: Context, halves: MessageEvents) -> Iterator[Finding]:
    hidden = halves.where(halves.transaction != Transaction.COMMIT)
    deliveries = columns.deliveries
    rows = np.flatnonzero(is_among(deliveries.message, np.unique(hidden.message)))
    _, first = np.unique(deliveries.message[rows], return_index=True)
    for row in rows[first].tolist():
        sent = np.flatnonzero(hidden.message == deliveries.message[row])[0]
        rolled_back = hidden.transaction[sent] == Transaction.ROLLBACK
        what = "its transaction was rolled back" if rolled_back else "it was never committed"
        yield finding_at(
            columns,
            deliveries,
            row,
            anomaly="rolled_back_visible",
            judgement=judge(context.facts.mode, "rolled_back_visible"),
            detail=f"delivered, and {what}",
            group=columns.names.groups[deliveries.group[row]],
            at_invocation=True,
        )


def _first_deliveries_of_left(columns: Columns, halves: MessageEvents) -> Ints:
    """Return the row of the first delivery of each half whose producer left the end to the broker's check."""
    left = halves.where(_is_left(halves))
    deliveries = columns.deliveries
    rows = np.flatnonzero(is_among(deliveries.message, np.unique(left.message)))
    rows = rows[np.argsort(deliveries.invoke_index[rows], kind="stable")]
    _, first = np.unique(deliveries.message[rows], return_index=True)
    found: Ints = rows[first]
    return found


def _undecided(
    columns: Columns, context: Context, rows: Ints, checks: Mapping[str, list[CheckBack]]
) -> Iterator[Finding]:
    """Yield findings for first deliveries that came before any producer had answered "commit"."""
    deliveries = columns.deliveries
    room_ns = 0 if context.facts.disks_observed else WRITTEN_LATE_NS
    for row in rows.tolist():
        of_key = checks.get(columns.names.key(int(deliveries.message[row])) or "", ())
        committed_ns = [check.earliest_ns for check in of_key if check.state == "commit"]
        given_ns = int(began_latest(deliveries, slice(row, row + 1))[0])
        if min(committed_ns, default=FOREVER_NS) - room_ns > given_ns:
            yield finding_at(
                columns,
                deliveries,
                row,
                anomaly="rolled_back_visible",
                judgement=judge(context.facts.mode, "rolled_back_visible"),
                detail="delivered, and its producer had left the end open and not been asked, or not said commit",
                group=columns.names.groups[deliveries.group[row]],
                at_invocation=True,
            )


def _is_left(halves: MessageEvents) -> Mask:
    """Whether each half was certainly stored, and its producer left the end to the broker's check, shape (halves,)."""
    left: Mask = (
        (halves.transaction == Transaction.COMMIT)
        & (halves.outcome == Outcome.UNKNOWN)
        & (halves.log != UNKNOWN)
    )
    return left


def _unresolved(columns: Columns, context: Context, halves: MessageEvents) -> Iterator[Finding]:
    """Yield findings for open halves that were certainly stored, and whose commit depends on the broker's check."""
    left = halves.where(_is_left(halves))
    seen = is_among(left.message, np.unique(columns.deliveries.message))
    passed = np.zeros(len(left), np.bool_)
    for group in context.facts.groups:
        passed |= context.wants(columns, left, group) & context.resolved(columns, left, group)
    for row in np.flatnonzero(passed & ~seen).tolist():
        queue = queue_of(columns, left, row)
        assert queue is not None
        key = columns.names.key(int(left.message[row]))
        rule = context.promises.rule(queue.stream, int(left.invoke_ns[row]), key=key)
        gone = queue.stream not in context.facts.living_sets
        yield finding_at(
            columns,
            left,
            row,
            anomaly="unresolved_transaction",
            judgement=Judgement.ALLOWED if gone else rule.judgement,
            detail="half of it is stored, its producer would commit it, and no group has seen it; "
            + ("its leader is gone for good" if gone else context.promises.text(rule)),
        )


def _answered(
    columns: Columns, context: Context, halves: MessageEvents, asked: Mapping[int, list[CheckBack]]
) -> Iterator[Finding]:
    """Yield findings for sends of unknown outcome that a producer committed in a check, and that no group received."""
    facts = context.facts
    committed = (halves.transaction == Transaction.COMMIT) & (halves.outcome == Outcome.UNKNOWN)
    committed &= halves.log == UNKNOWN
    committed &= ~is_among(halves.message, np.unique(columns.deliveries.message))
    # A group that starts at the end of a queue may skip a message whose offset is not known.
    groups = [group for group in facts.groups if group not in facts.late_groups]
    wanted = {group: context.wants(columns, halves, group) for group in groups}
    wait_s = facts.check_every_s + LATE_REQUESTS * facts.timings.request_s
    kept_ns = round(facts.reserved_s * NS_PER_S)
    for row in np.flatnonzero(committed).tolist():
        checks = asked.get(row, ())
        if not facts.disks_observed and len(checks) >= facts.check_max:
            continue
        topic, key = (
            columns.names.topics[halves.topic[row]],
            columns.names.key(int(halves.message[row])),
        )
        drains = [context.timeline.drains_of(of, topic) for of in groups if wanted[of][row]]
        read_ns = [drain.time_ns for drain in drains if drain is not None and drain.complete]
        delay_ns = max(int(halves.due_ns[row] - halves.invoke_ns[row]), 0)
        for check in checks:
            due_ns = check.time_ns + delay_ns + round(wait_s * NS_PER_S)
            is_passed = any(due_ns < at_ns < check.earliest_ns + kept_ns for at_ns in read_ns)
            if check.state == "commit" and is_passed and _arrived(context, check):
                judgement, why = _promise_since(context, key, check)
                answered_s = check.time_ns / NS_PER_S
                yield finding_at(
                    columns,
                    halves,
                    row,
                    anomaly="unresolved_transaction",
                    judgement=judgement,
                    detail=f"a producer answered commit at {answered_s:.3f} s, and no group has seen it; {why}",
                )
                break


def _askers(
    context: Context, checks: Iterable[CheckBack], holder: LogKey | None = None
) -> Iterable[str]:
    """Return the brokers that may have asked: the holder of the only half, or those that checks name, or else all."""
    named = {check.broker for check in checks} if holder is None else {holder.stream}
    known = context.facts.replica_sets
    return [broker for broker in known if broker in named] if named <= known.keys() else known


def _promise_since(context: Context, key: str | None, check: CheckBack) -> tuple[Judgement, str]:
    """Return the judgement of the loss of a message whose commit reached the broker that asked, with the reason."""
    facts, promises, brokers = context.facts, context.promises, _askers(context, [check])
    if not set(facts.living_sets).issuperset(brokers):
        return Judgement.ALLOWED, "a leader is gone for good"
    rules = [promises.rule(broker, check.earliest_ns, key=key) for broker in brokers]
    rule = next((of for of in rules if of.judgement is not Judgement.VIOLATION), rules[0])
    return rule.judgement, promises.text(rule)


def _arrived(context: Context, check: CheckBack) -> bool:
    """Whether no fault of the broker that asked, or of the producer, was near the answer."""
    facts, request_ns = context.facts, int(context.facts.timings.request_s * NS_PER_S)
    near = check.earliest_ns - request_ns, check.time_ns + request_ns
    nodes = facts.producers if check.node is None else (check.node,)
    return not any(
        context.excuses.find(ASKED_AGAIN, *near, broker)
        or context.excuses.find(ON_ITS_WAY, *near, broker, nodes)
        for broker in _askers(context, [check])
    )


def _never_asked(
    columns: Columns, context: Context, halves: MessageEvents, asked: Mapping[int, list[CheckBack]]
) -> Iterator[Finding]:
    """Yield findings for halves that no producer ended and no broker checked in time, at rest or without an excuse."""
    facts = context.facts
    undecided = (halves.transaction == Transaction.UNKNOWN) & (halves.log != UNKNOWN)
    undecided |= _is_left(halves)
    if not facts.check_every_s or not facts.check_max:
        return
    last_ns = max(check.time_ns for check in context.timeline.check_backs)
    rests = list(spans_at_rest(context, facts.producers))
    for row in np.flatnonzero(undecided).tolist():
        began_ns = int(halves.invoke_ns[row])
        wait_s = _check_within_s(context)
        # before this time, brokers append a copy without a check
        if halves.check_ns[row] != UNKNOWN:
            wait_s += (halves.check_ns[row] - began_ns) / NS_PER_S
        wait_ns = round(wait_s * NS_PER_S)
        due_ns = int(halves.time_ns[row]) + wait_ns
        at_rest = any(rest.start_ns <= began_ns and due_ns <= rest.end_ns for rest in rests)
        at_rest = at_rest and not _is_rolled_back(columns, context, halves, row)
        first_ns = min((check.earliest_ns for check in asked.get(row, ())), default=FOREVER_NS)
        overdue = first_ns > due_ns and at_rest and due_ns <= last_ns
        span = Span(int(halves.time_ns[row]), min(first_ns, last_ns))
        still = Open(began_ns, span, wait_ns, 0)
        if overdue or _is_overdue(columns, context, halves, row, still):
            yield finding_at(
                columns,
                halves,
                row,
                anomaly="unresolved_transaction",
                judgement=judge(facts.mode, "unresolved_transaction"),
                detail=f"half of it is stored, its producer has not ended it, and no broker asked within {wait_s:g} s",
            )


def _is_overdue(
    columns: Columns, context: Context, halves: MessageEvents, row: int, still: Open
) -> bool:
    """Whether the broker of a half should have checked it in a time without a check, in spite of faults of others.

    Always False in faithful mode: faithful brokers also count rounds without a check, and ask on connections that no
    longer exist. A broker that may have lost the half need not ask.
    """
    queue = queue_of(columns, halves, row)
    if context.facts.mode != "hardened" or queue is None or halves.tries[row] != 1:
        return False
    if _is_rolled_back(columns, context, halves, row):
        return False
    if queue.stream not in context.facts.living_sets:
        return False
    rule = context.promises.rule(queue.stream, int(halves.invoke_ns[row]))
    return rule.judgement is Judgement.VIOLATION and must_be_asked(context, queue.stream, still)


def _is_rolled_back(columns: Columns, context: Context, halves: MessageEvents, row: int) -> bool:
    """Whether the client rolled back a half, because it was stored with a weak status."""
    return columns.names.key(int(halves.message[row])) in context.timeline.weak_halves


def _check_within_s(context: Context) -> float:
    """Return the most time in seconds until a broker checks a half or its copy, if the half names no time of its own.

    A round of checks ends at the first half that is too young, so the halves behind it wait too.
    """
    facts = context.facts
    return facts.check_after_s + facts.check_every_s + facts.timings.request_s


def _given_up_early(
    columns: Columns, context: Context, halves: MessageEvents, asked: Mapping[int, list[CheckBack]]
) -> Iterator[Finding]:
    """Yield findings for transactions that brokers stopped checking too early, at rest or without an excuse.

    All answers were "unknown", so only the number of checks ends them. RocketMQ also counts rounds without a check
    (issue 8311), so only the hardened system guarantees the number.
    """
    facts = context.facts
    if facts.mode != "hardened" or not facts.check_every_s or not facts.check_max:
        return
    wait_ns = round(_check_within_s(context) * NS_PER_S)
    # A broker gives up a half that is older than this; 0: the age is not known.
    kept_ns = round(facts.reserved_s * NS_PER_S) or FOREVER_NS
    asked_ns = max((check.time_ns for check in context.timeline.check_backs), default=0)
    rests = list(spans_at_rest(context, facts.producers))
    for row, checks in asked.items():
        is_stored_once = halves.tries[row] == 1 and halves.log[row] != UNKNOWN
        is_open = all(check.state == "unknown" for check in checks)
        if not is_stored_once or not is_open or len(checks) >= facts.check_max:
            continue
        if halves.transaction[row] != Transaction.UNKNOWN and not _is_left(halves)[row]:
            continue
        began_ns, due_ns = int(halves.invoke_ns[row]), checks[-1].time_ns + wait_ns
        at_rest = any(rest.start_ns <= began_ns and due_ns <= rest.end_ns for rest in rests)
        last_ns = min(asked_ns, began_ns + kept_ns)
        still = Open(began_ns, Span(checks[-1].time_ns, last_ns), wait_ns, len(checks))
        if (at_rest and due_ns <= last_ns) or _is_overdue(columns, context, halves, row, still):
            yield finding_at(
                columns,
                halves,
                row,
                anomaly="unresolved_transaction",
                judgement=judge(facts.mode, "unresolved_transaction"),
                detail=f"given up after {len(checks)} questions, all answered with unknown; {facts.check_max} are"
                " configured",
            )


def _checked(
    columns: Columns, context: Context, halves: MessageEvents, asked: dict[int, list[CheckBack]]
) -> Iterator[Finding]:
    facts = context.facts
    given_ns = _given_ns(columns, halves.message[list(asked)])
    for row, checks in asked.items():
        began = int(halves.invoke_ns[row])
        attempts = max(int(halves.tries[row]), 1)  # each may have stored a half of its own
        # After several attempts only the queue of the last half is known; others may lie elsewhere.
        holder = queue_of(columns, halves, row) if attempts == 1 else None
        if early := _asked_early(context, halves, row, checks, holder):
            yield _question(columns, context, halves, row, "check_too_early", *early)
        if _is_failed_commit(halves, row):
            what = "asked, and its send had failed: nothing of it is stored"
            yield _question(columns, context, halves, row, "checked_too_often", what, None)
            continue
        askers = list(_askers(context, checks, holder))
        again = checked_again(context, halves, row, askers, checks, given_ns)
        if len(checks) > facts.check_max * attempts:
            what = f"asked {len(checks)} times; {facts.check_max} are allowed"
            if attempts > 1:
                what += f" for each of {attempts} attempts"
            excuse = _many_halves(halves, row)
            excuse = excuse or _broker_died(context, askers, began, checks, attempts)
            found = again if excuse and again and again[1] is None else (what, excuse)
            yield _question(columns, context, halves, row, "checked_too_often", *found)
        elif again:
            yield _question(columns, context, halves, row, "checked_too_often", *again)


def _asked_early(
    context: Context,
    halves: MessageEvents,
    row: int,
    checks: Iterable[CheckBack],
    holder: LogKey | None,
) -> tuple[str, str | None] | None:
    """Return a text for the first check that came too early, and what excuses it; one without an excuse, if any is.

    Each half is checked by the clock of the broker that stores it.
    """
    first_ns, began_ns = _first_check_ns(context, halves, row), int(halves.invoke_ns[row])
    excused = None
    for check in checks:
        early_ns = first_ns - check.time_ns
        if early_ns <= CLOCK_ROUGHNESS_NS:
            continue
        askers = _askers(context, [check], holder)
        excuse = clocks_stepped(context, askers, began_ns, check.time_ns)
        what = f"asked {early_ns / NS_PER_S:.3f} s before the time in which it may be"
        if excuse is None:
            return what, None
        excused = excused or (what, excuse)
    return excused


def _first_check_ns(context: Context, halves: MessageEvents, row: int) -> int:
    """Return the earliest time in ns at which a broker may check a transaction."""
    if halves.check_ns[row] != UNKNOWN:
        return int(halves.check_ns[row])
    return int(halves.invoke_ns[row]) + round(context.facts.check_after_s * NS_PER_S)


def _stored_late(
    columns: Columns, context: Context, halves: MessageEvents, asked: Mapping[int, list[CheckBack]]
) -> Iterator[Finding]:
    """Yield findings for committed transactions that no broker checked, and that a broker stored much later."""
    rows = np.flatnonzero(is_committed(halves))
    stored_ns = _first_stored_ns(columns, context, halves.message[rows])
    request_ns = round(context.facts.timings.request_s * NS_PER_S)
    for row in rows.tolist():
        at_ns, ended_ns = stored_ns.get(int(halves.message[row]), 0), int(halves.time_ns[row])
        if row in asked or at_ns - ended_ns <= LATE_REQUESTS * request_ns:
            continue
        queue = queue_of(columns, halves, row)
        sender = context.timeline.nodes.get(int(halves.process[row]))
        senders = context.facts.producers if sender is None else (sender,)
        broker = None if queue is None else queue.stream
        window = _held_up(context, broker, senders, ended_ns, at_ns)
        what = f"stored {(at_ns - ended_ns) / NS_PER_S:.3f} s after it was committed, and no broker asked"
        words = None if window is None else window.words
        yield _question(columns, context, halves, row, "unresolved_transaction", what, words)


def _held_up(
    context: Context, broker: str | None, senders: Iterable[str], ended_ns: int, stored_ns: int
) -> Window | None:
    """Return a fault near the end of a transaction that may have delayed the end until the message was stored.

    A broker that never learns the end asks for it. So the end was on its way, or waited in the broker. TCP doubles the
    time between two attempts. So after the faults that delayed the end, it takes at most as long to arrive as they had
    delayed it before.
    """
    excuses, request_ns = context.excuses, round(context.facts.timings.request_s * NS_PER_S)
    windows = [*excuses.windows(ASKED_AGAIN, broker), *excuses.windows(ON_ITS_WAY, broker, senders)]
    last_ns, first = ended_ns + request_ns, None
    for window in sorted(windows, key=lambda of: of.start_ns):
        if ended_ns - request_ns <= window.end_ns and window.start_ns <= last_ns:
            last_ns, first = max(last_ns, 2 * window.end_ns - ended_ns), first or window
    return first if stored_ns <= last_ns + LATE_REQUESTS * request_ns else None


def _first_stored_ns(columns: Columns, context: Context, messages: Ints) -> dict[int, int]:
    """Return when each message was first stored in ns, by the clock of its broker; 0 if this clock may be wrong."""
    deliveries, epoch_ms = columns.deliveries, context.facts.wall_epoch_ms
    if epoch_ms is None:
        return {}
    known = is_among(deliveries.message, np.unique(messages)) & (deliveries.stored_ms != UNKNOWN)
    known &= ~columns.names.internal_topic[deliveries.topic]
    rows = np.flatnonzero(known)
    stepped_ns = brokers_stepped_ns(columns, context)
    stepped_ns = stepped_ns[columns.names.stream_of_log[deliveries.log[rows]]]
    stored_ns = on_run_clock(deliveries.stored_ms[rows], epoch_ms)
    stored_ns = np.where(deliveries.invoke_ns[rows] < stepped_ns, stored_ns, 0)
    found: dict[int, int] = {}
    for message, at_ns in zip(deliveries.message[rows].tolist(), stored_ns.tolist(), strict=True):
        found[message] = min(at_ns, found.get(message, FOREVER_NS))
    return found


def _is_failed_commit(halves: MessageEvents, row: int) -> bool:
    """Whether the send failed without storing a half. A send that was rolled back also failed, but may have a half."""
    failed = halves.outcome[row] == Outcome.FAILED
    return bool(failed and halves.transaction[row] == Transaction.COMMIT)


def _given_ns(columns: Columns, messages: Ints) -> dict[int, int]:
    """Return, by message id, when a consumer first received each of `messages` in ns."""
    deliveries = columns.deliveries
    rows = np.flatnonzero(is_among(deliveries.message, np.unique(messages)))
    found: dict[int, int] = {}
    given_ns = began_latest(deliveries, rows)
    for message, at_ns in zip(deliveries.message[rows].tolist(), given_ns.tolist(), strict=True):
        found[message] = min(at_ns, found.get(message, FOREVER_NS))
    return found


def _many_halves(halves: MessageEvents, row: int) -> str | None:
    """Return why there may be more halves than producers report; None if there cannot."""
    if halves.tries[row] == 0:
        return "the number of attempts is not known, and each may have stored a half of its own"
    return None


def _broker_died(
    context: Context, brokers: Iterable[str], first_ns: int, checks: list[CheckBack], attempts: int
) -> str | None:
    """Return why a broker may have checked again: its last progress was not durable when it died. None: no reason.

    It then counts from the progress that it last recorded, and has several copies of the half. It checks them in the
    same rounds, unless a half must be older than the time between two rounds.
    """
    facts, last_ns = context.facts, checks[-1].time_ns
    in_rounds = facts.check_every_s and facts.check_after_s <= facts.check_every_s
    for of in brokers:
        deaths = [
            window
            for window in context.excuses.windows("checked_too_often", of)
            if window.start_ns <= last_ns and first_ns <= window.end_ns
        ]
        redone = sum(put_back_since(context, of, first_ns, death) for death in deaths)
        bounded = in_rounds and not any(loses_disk(context, death) for death in deaths)
        if deaths and not (
            bounded and _rounds(context, checks) > facts.check_max * attempts + redone
        ):
            return deaths[0].words
    return None


def _rounds(context: Context, checks: Iterable[CheckBack]) -> int:
    """Return the number of rounds in which brokers checked a transaction."""
    apart_ns, count, since_ns = context.facts.check_every_s * NS_PER_S / 2, 0, -FOREVER_NS
    for check in checks:
        if check.time_ns - since_ns >= apart_ns:
            count, since_ns = count + 1, check.time_ns
    return count


def _question(
    columns: Columns,
    context: Context,
    halves: MessageEvents,
    row: int,
    anomaly: str,
    detail: str,
    excuse: str | None,
) -> Finding:
    return finding_at(
        columns,
        halves,
        row,
        anomaly=anomaly,
        judgement=Judgement.ALLOWED if excuse else judge(context.facts.mode, anomaly),
        detail=f"{detail}; {excuse}" if excuse else detail,
    )


def finish_transactions(tally: Tally, context: Context) -> Verdict:
    """Judge whether each check is about a transaction of the run, which needs the tallies of all messages."""
    asked = {of.key for of in context.timeline.check_backs if of.topic in context.facts.topics}
    strangers = len(asked) - tally.counts.get("checked_back", 0)
    if strangers > 0:
        tally = tally.merge(Tally.of([_strangers(context, strangers)]))
    reason = _ends_unknown(tally, context)
    is_violated = any(tally.counts.get(anomaly, 0) for anomaly in ANOMALIES)
    return Verdict(
        checker="transactions",
        valid=False if is_violated else True if reason is None else "unknown",
        counts=tally.counts,
        findings=tally.findings,
        reason=reason,
    )


def _strangers(context: Context, count: int) -> Finding:
    last = context.timeline.check_backs[-1]
    return Finding(
        anomaly="checked_too_often",
        judgement=judge(context.facts.mode, "checked_too_often"),
        op_index=-1,
        time_ns=last.time_ns,
        detail=f"brokers asked about {count} transactions that no producer had sent",
    )


def _ends_unknown(tally: Tally, _context: Context) -> str | None:
    if not (count := tally.counts.get("ends_unknown", 0)):
        return None
    return (
        f"{count} transactions whose end was left to the broker's question were delivered, "
        "and the history has no check_back"
    )


def _candidates(columns: Columns, _context: Context, _cleared: Mask) -> Ints:
    """Select all transactions, because a rolled-back message must be absent from all queues."""
    return np.unique(columns.sends.message[columns.sends.transaction != Transaction.NONE])


TRANSACTIONS = Kernel(
    name="transactions",
    partition_by="message",
    screened=True,
    anomalies=ANOMALIES,
    partial=tally_transactions,
    unknown_reason=_ends_unknown,
    more_candidates=_candidates,
    finished=finish_transactions,
)
