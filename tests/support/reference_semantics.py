"""Reference for delays, filters, retries, transactions, order by key and broadcasting, in plain Python over ops.

As in `reference_checkers.py`: slow, obvious, without any fault that excuses, and no code shared with the kernels. Each
function returns how often it found what: (anomaly, key or place, ...) -> times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from staticfire.checkers.model.history import Op
from tests.support.reference_checkers import (
    Delivery,
    Queue,
    Send,
    deliveries_of,
    sends_of,
)
from tests.support.reference_loss import stored_sends

Found = Counter[tuple[Any, ...]]
NS_PER_MS, NS_PER_S = 1_000_000, 1_000_000_000
ROUGHLY_NS = 2 * NS_PER_MS  # clocks of brokers count whole milliseconds
REQUEST_NS = 3 * NS_PER_S
GIVEN_UP_NS = 900 * NS_PER_S
LATE_NS = 40 * NS_PER_S  # 10 s, and a rebalance of 30 s: these histories have no assignments
Groups = Mapping[str, tuple[str, ...]]


def value_of(ops: Sequence[Op], send: Send) -> Mapping[str, Any]:
    value: Mapping[str, Any] = ops[send.ended].value
    return value


def began_ns(ops: Sequence[Op], what: Send | Delivery) -> int:
    return ops[what.began].time_ns


def ended_ns(ops: Sequence[Op], what: Send | Delivery) -> int:
    return ops[what.ended].time_ns


def unwanted(ops: Sequence[Op], wanted: Mapping[str, tuple[str, ...]]) -> Found:
    """Deliveries of messages whose tag the group did not ask for."""
    tags = {send.key: value_of(ops, send).get("tag") for send in sends_of(ops)}
    return Counter(
        ("unwanted_delivery", given.key, given.group)
        for given in deliveries_of(ops)
        if given.group in wanted and given.key in tags
        if tags[given.key] not in wanted[given.group]
    )


def unwanted_around_a_change(
    ops: Sequence[Op],
    group: str,
    before: tuple[str, ...],
    now: tuple[str, ...],
    begins_ns: int,
    changed_ns: int,
) -> Found:
    """Deliveries of messages whose tag a group did not ask for, which changed its filter at some time between two."""
    sends = {send.key: send for send in sends_of(ops)}
    found: Found = Counter()
    for given in deliveries_of(ops):
        if given.group == group and given.key in sends:
            send = sends[given.key]
            tag = value_of(ops, send).get("tag")
            if ops[send.began].time_ns >= changed_ns:
                allowed: tuple[str, ...] = now
            elif began_ns(ops, given) < begins_ns:
                allowed = before
            else:
                allowed = (*before, *now)
            if tag not in allowed:
                found["unwanted_delivery", given.key, group] += 1
    return found


def early(ops: Sequence[Op]) -> Found:
    """Deliveries of delayed messages before their time."""
    return Counter(
        ("early_delivery", given.key, given.group)
        for send, given in _delayed_ones(ops)
        if _due_ns(ops, send) - began_ns(ops, given) >= NS_PER_MS  # store times are rounded down
    )


def delayed_out_of_order(ops: Sequence[Op]) -> Found:
    """Delayed messages in front of one that was acknowledged before they were sent."""
    first: dict[str, int] = {}
    sends: dict[str, Send] = {}
    for send, given in _delayed_ones(ops):
        if given.queue == send.queue and send.outcome == "ok":
            sends[send.key] = send
            first[send.key] = min(first.get(send.key, given.offset), given.offset)
    found: Found = Counter()
    for later in sends.values():
        overtakes = any(
            earlier.ended < later.began
            and earlier.queue == later.queue
            and value_of(ops, earlier)["delay_ms"] == value_of(ops, later)["delay_ms"]
            and first[earlier.key] >= first[later.key]
            for earlier in sends.values()
        )
        if overtakes:
            found["delayed_out_of_order", later.key] += 1
    return found


def late(ops: Sequence[Op], levels_ms: Sequence[int]) -> Found:
    """First deliveries of delayed messages, in the queue of their send, and of retries, long after their time."""
    found: Found = Counter()
    had: set[tuple[Any, ...]] = set()
    for send, given in _delayed_ones(ops):
        if given.queue != send.queue:
            continue
        first = (given.key, given.group) not in had
        had.add((given.key, given.group))
        known_ns = max(_due_ns(ops, send), ended_ns(ops, send))
        is_late = began_ns(ops, given) - known_ns > LATE_NS
        if first and is_late and send.outcome in ("ok", "weak") and send.attempts == 1:
            found["late_delivery", given.key, given.group] += 1
    return found + _late_retries(ops, levels_ms)


def moved_late(ops: Sequence[Op], levels_ms: Sequence[int], epoch_ms: int) -> Found:
    """First deliveries of what a broker stored in its queue half a second after it was due, without any fault."""
    found: Found = Counter()
    had: set[tuple[Any, ...]] = set()
    for send, given in _delayed_ones(ops):
        latest_ns = _due_ns(ops, send) + ended_ns(ops, send) - began_ns(ops, send)
        first = (given.key, given.group) not in had and given.queue == send.queue
        had.add((given.key, given.group))
        if first and send.outcome in ("ok", "weak") and send.attempts == 1:
            found["late_delivery", given.key, given.group] += _is_moved_late(
                ops, given, latest_ns, epoch_ms
            )
    for given, due_ns in _kept_retries(ops, levels_ms):
        found["late_delivery", given.key, given.group] += _is_moved_late(
            ops, given, due_ns, epoch_ms
        )
    return +found


def _is_moved_late(ops: Sequence[Op], given: Delivery, due_ns: int, epoch_ms: int) -> bool:
    [row] = [row for row in ops[given.ended].value["messages"] if row[0] == given.key]
    stored_ms = row[5][4]
    return stored_ms is not None and (stored_ms - epoch_ms) * NS_PER_MS - due_ns > NS_PER_S // 2


def _late_retries(ops: Sequence[Op], levels_ms: Sequence[int]) -> Found:
    return Counter(
        ("late_delivery", given.key, given.group)
        for given, due_ns in _kept_retries(ops, levels_ms)
        if began_ns(ops, given) - due_ns > LATE_NS
    )


def _kept_retries(ops: Sequence[Op], levels_ms: Sequence[int]) -> Iterator[tuple[Delivery, int]]:
    """Retries of what one member has said once to be sent back, and kept by the broker, and when they are due."""
    had: set[tuple[Any, ...]] = set()
    for given in deliveries_of(ops):
        one = given.key, given.group, given.tries, given.queue
        if not given.queue[0].startswith("%RETRY%") or given.tries == 0 or one in had:
            continue
        had.add(one)
        answered = [
            op
            for op in ops
            if op.f == "send_back" and op.type != "invoke" and op.value["group"] == given.group
            for key, _, tries in op.value["messages"]
            if (key, tries) == (given.key, given.tries - 1)
        ]
        if (
            len(answered) == 1
            and answered[0].type == "ok"
            and answered[0].value.get("copied") is False
        ):
            wait_ns = levels_ms[min(2 + given.tries, len(levels_ms)) - 1] * NS_PER_MS
            yield given, answered[0].time_ns + wait_ns


def _delayed_ones(ops: Sequence[Op]) -> Iterator[tuple[Send, Delivery]]:
    """Delayed sends, each with one of its deliveries."""
    delayed = {send.key: send for send in sends_of(ops) if "delay_ms" in value_of(ops, send)}
    for given in deliveries_of(ops):
        send = delayed.get(given.key or "")
        if send is not None:
            yield send, given


def _due_ns(ops: Sequence[Op], send: Send) -> int:
    delay_ms: int = value_of(ops, send)["delay_ms"]
    return began_ns(ops, send) + delay_ms * NS_PER_MS


def two_listeners(ops: Sequence[Op], orderly: Sequence[str]) -> Found:
    """Deliveries that began while another process was at work on the queue."""
    deliveries = [given for given in deliveries_of(ops) if given.group in orderly]
    return Counter(
        ("two_listeners", later.key, later.group)
        for later in deliveries
        if any(
            (earlier.group, earlier.queue) == (later.group, later.queue)
            and earlier.process != later.process
            and earlier.began < later.began < earlier.ended
            for earlier in deliveries
        )
    )


def overlapping_owners(ops: Sequence[Op], orderly: Sequence[str]) -> Found:
    """Deliveries between two calls of another process that had the queue from the one to the other.

    Not those that began while another process was at work on the queue.
    """
    met = two_listeners(ops, orderly)
    deliveries = [given for given in deliveries_of(ops) if given.group in orderly]
    return Counter(
        ("overlapping_owners", later.key, later.group)
        for later in deliveries
        if ("two_listeners", later.key, later.group) not in met
        if any(
            (before.group, before.queue) == (later.group, later.queue)
            and before.process != later.process
            and (after.group, after.queue, after.process)
            == (before.group, before.queue, before.process)
            and before.began < later.began < after.began
            and _had_all_the_time(ops, before, after)
            for before in deliveries
            for after in deliveries
        )
    )


def _had_all_the_time(ops: Sequence[Op], before: Delivery, after: Delivery) -> bool:
    """Whether all that the process said of its queues, from the last word before the first call on, has the queue."""
    topic, broker, number = before.queue
    said = [
        op
        for op in ops[: after.began]
        if op.f == "assign" and op.process == before.process
        if (op.value["group"], op.value["topic"]) == (before.group, topic)
    ]
    later = [op for op in said if op.index > before.began]
    return len(said) > len(later) and all(
        [broker, number] in op.value["queues"] for op in said[len(said) - len(later) - 1 :]
    )


def order_violated(ops: Sequence[Op], orderly: Sequence[str]) -> Found:
    """Places consumed before something that lies below them was, by a call that had begun before that.

    Of the group as a whole, and of one owner from when it gained the queue until it gained it once more.
    """
    of_group: dict[tuple[Any, ...], Delivery] = {}
    of_term: dict[tuple[Any, ...], Delivery] = {}
    for given in sorted(deliveries_of(ops), key=lambda given: given.ended):
        if given.group not in orderly or not given.consumed or given.queue[0].startswith("%"):
            continue
        of_group.setdefault((given.group, given.queue, given.offset), given)
        gained = _gained(ops, given)
        if gained:
            mine = [at for process, at in gained if process == given.process and at < given.began]
            term = given.process, len(mine)
            of_term.setdefault((given.group, given.queue, *term, given.offset), given)
    late = {
        (later.began, later.process, later.queue, later.offset): later
        for first in (of_group, of_term)
        for (*stream, offset), later in first.items()
        if any(
            stream == other
            and lower < offset
            and later.began < earlier.ended
            and earlier.ended != later.ended
            for (*other, lower), earlier in first.items()
        )
    }
    return Counter(("order_violated", later.key, later.group) for later in late.values())


def retry_uncounted(ops: Sequence[Op], orderly: Sequence[str]) -> Found:
    """Calls of an owner for what its listener had failed for just before, with a count that is not above that one."""
    found: Found = Counter()
    before: dict[tuple[Any, ...], Delivery] = {}
    for given in deliveries_of(ops):
        gained = _gained(ops, given)
        if given.group not in orderly or given.queue[0].startswith("%") or not gained:
            continue
        terms = [at for process, at in gained if process == given.process and at < given.began]
        where = (given.group, given.queue, given.process, len(terms), given.offset)
        former = before.get(where)
        failed = former is not None and not former.consumed
        if former and failed and former.began < former.ended < given.began:
            found["retry_uncounted", given.key, given.group] += given.tries <= former.tries
        before[where] = given
    return +found


def _gained(ops: Sequence[Op], given: Delivery) -> list[tuple[int, int]]:
    """Who of the group gained the queue of a delivery, and by which op."""
    topic, broker, number = given.queue
    had: dict[int, bool] = {}
    found = []
    for op in ops:
        if op.f == "assign" and (op.value["group"], op.value["topic"]) == (given.group, topic):
            has = [broker, number] in op.value["queues"]
            if has and not had.get(op.process, False):
                found.append((op.process, op.index))
            had[op.process] = has
    return found


def moved_keys(ops: Sequence[Op]) -> Found:
    """Acknowledged messages whose sharding key was in another queue just before."""
    found: Found = Counter()
    last: dict[str, Queue | None] = {}
    for send in sorted(sends_of(ops), key=lambda send: send.ended):
        key = value_of(ops, send).get("sharding_key")
        if key is None or send.outcome != "ok":
            continue
        if last.setdefault(key, send.queue) != send.queue:
            found["key_moved", send.key] += 1
        last[key] = send.queue
    return found


def retries(ops: Sequence[Op], retries_max: Mapping[str, int], levels_ms: Sequence[int]) -> Found:
    found: Found = Counter()
    got: dict[tuple[str, str], list[Delivery]] = {}
    for given in deliveries_of(ops):
        if given.group in retries_max and given.key is not None:
            got.setdefault((given.group, given.key), []).append(given)
    for (group, key), many in got.items():
        lived = [given for given in many if not given.queue[0].startswith("%DLQ%")]
        for given in many:
            if given.queue[0].startswith("%RETRY%"):
                for anomaly in _wrong_retry(ops, lived, given, retries_max[group], levels_ms):
                    found[anomaly, key, group] += 1
            provoked = any(
                before.tries >= retries_max[group] and not before.consumed for before in lived
            )
            if given not in lived and _never_sent_back(ops, many, given):
                found["retry_unprovoked", key, group] += 1
            if given not in lived and not (provoked and given.tries >= retries_max[group]):
                found["premature_dead_letter", key, group] += 1
        used_up = sum(g.tries >= retries_max[group] and not g.consumed for g in lived)
        dead = {(g.queue, g.offset) for g in many if g not in lived}
        if len(dead) > max(used_up, 1):
            found["duplicate_dead_letter", key, group] += len(dead) - max(used_up, 1)
        if any(op.f == "send_back" and op.value["group"] == group for op in ops):
            found["retry_unprovoked", key, group] += _retried_twice(ops, lived)
    return +found + claimed_tries(ops)


def claimed_tries(ops: Sequence[Op]) -> Found:
    """Deliveries from a message's own topic that say that they were tried before."""
    deliveries = deliveries_of(ops)
    return Counter(
        ("retry_unprovoked", given.key, given.group)
        for at, given in enumerate(deliveries)
        if given.tries and given.key is not None and not given.queue[0].startswith("%")
        if not any(
            (before.key, before.group) == (given.key, given.group)
            and before.tries < given.tries
            and not before.consumed
            for before in deliveries[:at]
        )
    )


def _retried_twice(ops: Sequence[Op], lived: Sequence[Delivery]) -> int:
    """Retries beyond the failures one step before, those that lie at one place counted once."""
    extra = 0
    for tries in {given.tries for given in lived}:
        machines: dict[tuple[Any, int], Delivery] = {}
        for given in lived:
            place = given.queue, given.offset
            again = any(
                (e.queue, e.offset) == place and e.tries < tries and e.began < given.began
                for e in lived
            )
            if given.queue[0].startswith("%RETRY%") and given.tries == tries and not again:
                machines.setdefault(place, given)
        last = max((given.began for given in machines.values()), default=0)
        failed = [
            given
            for given in lived
            if given.began < last
            if (given.tries == tries - 1 and (not given.consumed or _overlong(ops, given)))
            or (not given.consumed and _is_repeated(lived, given, tries - 1))
        ]
        extra += max(0, len(machines) - len(failed)) if failed else 0
    return extra


def _is_repeated(lived: Sequence[Delivery], given: Delivery, tries: int) -> bool:
    """Whether a client gave its listener again, with a higher count, what had come with this one."""
    return any(
        (e.queue, e.offset) == (given.queue, given.offset)
        and e.tries == tries < given.tries
        and e.began < given.began
        for e in lived
    )


def _wrong_retry(
    ops: Sequence[Op],
    lived: Sequence[Delivery],
    retry: Delivery,
    retries_max: int,
    levels_ms: Sequence[int],
) -> list[str]:
    earlier = [given for given in lived if given.began < retry.began]
    place = retry.queue, retry.offset
    if any((e.queue, e.offset) == place and e.tries < retry.tries for e in earlier):
        return []  # the client tried again by itself
    wrong = ["retried_too_often"] if retry.tries > retries_max else []
    reasons = [
        given
        for given in earlier
        if given.tries == retry.tries - 1 and (not given.consumed or _overlong(ops, given))
    ]
    if not reasons:
        return [*wrong, "retry_unprovoked"]
    if _never_sent_back(ops, lived, retry):
        wrong.append("retry_unprovoked")
    in_time = [given for given in reasons if not _overlong(ops, given)]
    if not in_time:
        return [*wrong, "consumed_too_long"]
    wait_ns = levels_ms[min(2 + retry.tries, len(levels_ms)) - 1] * NS_PER_MS
    due_ns = min(ended_ns(ops, given) for given in in_time) + wait_ns
    return [*wrong, "retry_early"] if due_ns - began_ns(ops, retry) > ROUGHLY_NS else wrong


def _never_sent_back(ops: Sequence[Op], many: Sequence[Delivery], copy: Delivery) -> bool:
    """Whether no member can have had the broker of a copy make it.

    That is so if all that may have sent the message back lived on for long, and none of them reported it; or all of
    them reported it, and other brokers made the copies.
    """
    answered = [op for op in ops if op.f == "send_back" and op.value["group"] == copy.group]
    row = [copy.key, copy.tries - 1]
    reports = [
        op
        for op in answered
        for key, _, tries in op.value["messages"]
        if [key, tries] == row and op.type != "invoke"
    ]
    reasons = [
        given.process
        for given in many
        if given.began < copy.began and given.tries == copy.tries - 1
        if not given.queue[0].startswith("%DLQ%") and (not given.consumed or _overlong(ops, given))
    ]
    signs = [op for op in ops if op.f in ("assign", "begin", "commit", "send_back")]
    until_ns = began_ns(ops, copy) + 10 * REQUEST_NS
    silent = [
        process
        for process in reasons
        if not any(op.process == process and op.time_ns >= until_ns for op in signs)
    ]
    if not answered or not reasons:
        return False
    if not reports:
        return not silent
    unreported = [
        process
        for process in silent
        if sum(op.process == process for op in reports) < silent.count(process)
    ]
    by_others = all(
        op.value.get("copied") is False and op.value["broker"] != copy.queue[1] for op in reports
    )
    return by_others and not unreported


def _overlong(ops: Sequence[Op], given: Delivery) -> bool:
    return ended_ns(ops, given) - began_ns(ops, given) >= GIVEN_UP_NS


def transactions(
    ops: Sequence[Op],
    groups: Groups,
    wanted: Groups,
    after_s: float,
    check_max: int,
    every_s: float,
) -> Found:
    found: Found = Counter()
    seen = {given.key for given in deliveries_of(ops)}
    reported = any(op.f == "check_back" for op in ops)
    for send in sends_of(ops):
        end = value_of(ops, send).get("transaction")
        if end is None:
            continue
        stored = send.outcome == "unknown" and send.queue is not None
        decided = [
            op.time_ns
            for op in ops
            if op.f == "check_back"
            and op.value["key"] == send.key
            and op.value["state"] == "commit"
        ]
        first_ns = min(
            (began_ns(ops, g) for g in deliveries_of(ops) if g.key == send.key), default=0
        )
        too_early = reported and stored and first_ns < min(decided, default=1 << 62)
        if send.key in seen and (end != "commit" or too_early):
            found["rolled_back_visible", send.key] += 1
        tag = value_of(ops, send).get("tag")
        passed = any(
            send.topic in topics
            and has_passed(ops, group, send)
            and (group not in wanted or tag in wanted[group])
            for group, topics in groups.items()
        )
        if end == "commit" and stored and passed and send.key not in seen:
            found["unresolved_transaction", send.key] += 1
        asked = [op for op in ops if op.f == "check_back" and op.value["key"] == send.key]
        immune_s = value_of(ops, send).get("check_after_s")
        due_ns = ended_ns(ops, send) + (after_s + every_s + (immune_s or 0)) * NS_PER_S + REQUEST_NS
        later = any(op.f == "check_back" and op.time_ns >= due_ns for op in ops)
        first_asked_ns = min((op.time_ns for op in asked), default=1 << 62)
        is_left = send.queue is not None if end == "unknown" else end == "commit" and stored
        if is_left and later and first_asked_ns > due_ns:
            found["unresolved_transaction", send.key] += 1
        is_open = asked and all(op.value["state"] == "unknown" for op in asked)
        if is_left and is_open and send.attempts == 1 and len(asked) < check_max:
            given_up_ns = asked[-1].time_ns + round((after_s + every_s) * NS_PER_S) + REQUEST_NS
            if any(op.f == "check_back" and op.time_ns >= given_up_ns for op in ops):
                found["unresolved_transaction", send.key] += 1
        if asked:
            first_s = after_s if immune_s is None else immune_s
            early_ns = began_ns(ops, send) + round(first_s * NS_PER_S) - asked[0].time_ns
            if early_ns > ROUGHLY_NS:
                found["check_too_early", send.key] += 1
            is_nothing = send.outcome == "failed" and end == "commit"
            too_many = send.attempts > 0 and len(asked) > check_max * send.attempts
            if is_nothing or too_many or _asked_again(ops, send, end, asked, every_s):
                found["checked_too_often", send.key] += 1
    begun = {send.key for send in sends_of(ops) if "transaction" in value_of(ops, send)}
    if any(op.f == "check_back" and op.value["key"] not in begun for op in ops):
        found["checked_too_often", None] += 1
    return found


def _asked_again(
    ops: Sequence[Op], send: Send, end: str, asked: Sequence[Op], every_s: float
) -> bool:
    """Whether it was asked about after it was over, or twice in one round; only of what may have one half alone."""
    over = [op.time_ns for op in asked if op.value["state"] in ("commit", "rollback")]
    over += [began_ns(ops, given) for given in deliveries_of(ops) if given.key == send.key]
    if send.outcome == "ok" and end == "commit" and value_of(ops, send).get("end_sent", True):
        over.append(ended_ns(ops, send))
    is_over = bool(over) and asked[-1].time_ns - min(over) > REQUEST_NS
    gaps = [later.time_ns - earlier.time_ns for earlier, later in pairwise(asked)]
    return send.attempts == 1 and (is_over or any(gap < every_s * NS_PER_S / 2 for gap in gaps))


def has_passed(ops: Sequence[Op], group: str, send: Send) -> bool:
    """Whether a group has read past a send; one at an unknown offset is passed with the last message of its queue."""
    drains = [
        op
        for op in ops
        if op.f == "drain" and op.type in ("ok", "info")
        if (op.value["group"], op.value["topic"]) == (group, send.topic)
    ]
    if not drains or drains[-1].index < send.ended or send.queue is None:
        return False
    for broker, number, low, end, committed in drains[-1].value["queues"]:
        if (broker, number) == send.queue[1:]:
            if (
                send.offset == -1
            ):  # kept back, and put into its queue at an offset that is not known
                return bool(committed >= end)
            return bool(send.offset >= low and (send.offset < committed or send.offset >= end))
    return drains[-1].type == "ok"


def missed_by_members(ops: Sequence[Op], groups: Groups, broadcasting: Sequence[str]) -> Found:
    nodes = {op.process: op.node for op in ops if op.node is not None}
    deliveries = deliveries_of(ops)
    found: Found = Counter()
    for group in broadcasting:
        opened = [op for op in ops if op.f == "open" and op.value.get("group") == group]
        for member in {op.node for op in opened}:
            had = {
                given.key
                for given in deliveries
                if given.group == group and nodes.get(given.process) == member
            }
            for send in stored_sends(ops):
                if (
                    send.topic in groups[group]
                    and send.key not in had
                    and has_passed(ops, group, send)
                ):
                    found["member_missed", send.key, member] += 1
    return found


def lost_from_log(ops: Sequence[Op], kept_s: float = 0.0) -> Found:
    """Acknowledged messages beyond the end that a later, complete drain saw, or young ones below its first offset."""
    last: dict[tuple[str, str], Op] = {}
    for op in ops:
        if op.f == "drain" and op.type in ("ok", "info"):
            last[op.value["group"], op.value["topic"]] = op
    found: Found = Counter()
    for send in sends_of(ops):
        ends = [
            (drain.index, low, end)
            for drain in last.values()
            if drain.type == "ok"
            for broker, number, low, end, _committed in drain.value["queues"]
            if (drain.value["topic"], broker, number) == send.queue
        ]
        if send.outcome == "ok" and ends:
            drained_at, low, end = max(ends)
            if send.ended < drained_at and send.offset >= max(low, end):
                found["lost_from_log", send.key] += 1
            age_ns = ops[drained_at].time_ns - ops[send.ended].time_ns
            if 0 <= send.offset < low and age_ns < kept_s * 1e9:
                found["lost_from_log", send.key] += 1
    return found


def rewound(ops: Sequence[Op]) -> Found:
    """Commits of a process below the one that it made before for the same queue."""
    last: dict[tuple[Any, ...], int] = {}
    found: Found = Counter()
    for op in ops:
        if op.f != "commit" or op.type != "ok":
            continue
        for broker, number, offset in op.value["offsets"]:
            whose = op.value["group"], (op.value["topic"], broker, number), op.process
            if offset < last.setdefault(whose, offset):
                found["commit_rewound", *whose[:2], op.index] += 1
            last[whose] = offset
    return found


def latencies(ops: Sequence[Op], groups: Sequence[str]) -> dict[tuple[str, int], list[int]]:
    """(what, second) -> durations in nanoseconds, sorted. For histories in which no place holds two messages."""
    found: dict[tuple[str, int], list[int]] = {}
    deliveries = deliveries_of(ops)
    for send in sends_of(ops):
        if send.outcome != "ok":
            continue
        second = began_ns(ops, send) // NS_PER_S
        found.setdefault(("send", second), []).append(ended_ns(ops, send) - began_ns(ops, send))
        for group in groups:
            given = [
                began_ns(ops, given)
                for given in deliveries
                if (given.group, given.key) == (group, send.key)
                and (given.queue, given.offset) == (send.queue, send.offset)
            ]
            if given and send.offset >= 0:
                acked_ns = ended_ns(ops, send)
                place = f"lag {group}", acked_ns // NS_PER_S
                found.setdefault(place, []).append(max(min(given) - acked_ns, 0))
    return {place: sorted(durations) for place, durations in found.items()}
