"""Second copies of what a broker keeps back at first: delayed messages, and halves of transactions that were committed.

A broker moves such a message to its topic, and writes down later that it has. If it dies in between, it moves the
message once more when it is back. So each copy after the first needs a death of its broker (`moved_twice` of
excuse_table.py). Each attempt of a send may be a message of its own, moved beside the others. The death must have been

* no longer after the copy before than the broker takes to write its progress down. While a copy cannot become safe
  (`progress_held`), there is nothing to write down, and this time does not count; and
* no longer before this copy than the broker takes, once it is back, to come to the message again: delayed messages at
  once, halves when producers are asked about them again. Time in which it cannot is not counted.

A delayed message is moved once, so the death lies between the copies. A half is moved at each look at it, too, to the
end of its own queue: a broker that died then has it twice, asks about both, and both are committed, one right after the
other. So the death may be any since the half was sent.

Between two copies that were seen there may be others that were not, such as one that a power cut took.

When a copy was stored is known where deliveries say so and no clock was wrong. If it is not known, it was after the
message was due and before the copy was first delivered, and the second limit is not asked.

Source: ScheduleMessageService.persist (flushDelayOffsetInterval), TransactionalMessageServiceImpl.check.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.excuses import Window
from staticfire.checkers.guarantees.fault_effects import CLOCK
from staticfire.checkers.guarantees.promises import NS_PER_S
from staticfire.checkers.model.columns import UNKNOWN
from staticfire.checkers.model.intervals import Span, without

NS_PER_MS = 1_000_000
DELIVERED_AGAIN_S = (
    10.0  # a broker that is back begins with what is due, up to 64 messages of a level at a time
)


class Copy(NamedTuple):
    """A place where a group found the message."""

    given_ns: int  # first
    stored_ms: int  # by the wall clock of the broker; UNKNOWN if deliveries do not say


class Kept(NamedTuple):
    """What is known of the message."""

    since_ns: int  # before that nothing was moved
    is_delayed: bool


def kept_messages(
    context: Context, broker: str, copies: Iterable[Copy], kept: Kept
) -> tuple[int, Window | None]:
    """How many messages the broker must have kept back to have moved all these copies, and a death if one had to be.

    Of n messages, two of any n + 1 copies are of the same one, so a death lies between the first and the last of them.
    """
    times = sorted(_stored(context, broker, copy, kept.since_ns) for copy in copies)
    for count in range(1, len(times)):
        pairs = zip(times, times[count:], strict=False)
        found = [_death_between(context, broker, one, other, kept) for one, other in pairs]
        if all(found):
            return count, found[0]
    return len(times), None


def _stored(context: Context, broker: str, copy: Copy, since_ns: int) -> Span:
    """When a copy was stored: the earliest and the latest time."""
    facts = context.facts
    nodes = facts.replica_sets.get(broker, ())
    wrong = any(CLOCK in one.effects and set(one.targets) & set(nodes) for one in facts.faults)
    if copy.stored_ms == UNKNOWN or facts.wall_epoch_ms is None or wrong:
        return Span(since_ns, copy.given_ns)
    start_ns = (copy.stored_ms - facts.wall_epoch_ms) * NS_PER_MS
    return Span(start_ns, min(start_ns + NS_PER_MS, copy.given_ns))


def _death_between(
    context: Context, broker: str, one: Span, other: Span, kept: Kept
) -> Window | None:
    facts, excuses = context.facts, context.excuses
    alone = " unreplicated" if is_alone(context) else ""
    held = excuses.spans(f"progress_held{alone}", broker)
    unanswered = () if kept.is_delayed else excuses.spans("check_held", broker, facts.producers)
    written_ns = int(_written_s(context) * NS_PER_S)
    again_ns = int(_again_s(context, kept) * NS_PER_S)
    first: Window | None = None
    early_ns = one.start_ns if kept.is_delayed else kept.since_ns
    moved_ns = one.end_ns  # the latest time of a move that may not have been written down
    back_ns = one.end_ns  # from when on the broker comes to the message again
    for death in excuses.windows(f"moved_twice{alone}", broker):
        if death.end_ns < early_ns or death.start_ns > other.end_ns:
            continue
        if _free_ns(moved_ns, death.start_ns, held) > written_ns:
            continue
        first = first or death
        back_ns = max(back_ns, death.end_ns)
        moved_ns = _later(max(moved_ns, death.end_ns), again_ns, (*held, *unanswered))
    if first is None:
        return None
    is_known = other.length_ns <= NS_PER_MS
    late = is_known and _free_ns(back_ns, other.start_ns, (*held, *unanswered)) > again_ns
    return None if late else first


def is_alone(context: Context) -> bool:
    """Whether a copy is safe without a follower. RocketMQ counts what it moves while its progress is being written."""
    facts = context.facts
    return facts.replication != "sync" and facts.mode == "hardened"


def _written_s(context: Context) -> float:
    timings = context.facts.timings
    return timings.progress_s + timings.flush_s + timings.request_s


def _again_s(context: Context, kept: Kept) -> float:
    facts = context.facts
    if kept.is_delayed:
        return DELIVERED_AGAIN_S
    return facts.check_after_s + 2 * facts.check_every_s + DELIVERED_AGAIN_S


def _free_ns(start_ns: int, end_ns: int, held: Sequence[Span]) -> int:
    """How much of a time counts."""
    return sum(span.length_ns for span in without([Span(start_ns, end_ns)], held))


def _later(start_ns: int, by_ns: int, held: Sequence[Span]) -> int:
    """When so much time has passed that counts."""
    left_ns = by_ns
    for span in without([Span(start_ns, start_ns + by_ns + sum(s.length_ns for s in held))], held):
        if span.length_ns >= left_ns:
            return span.start_ns + left_ns
        left_ns -= span.length_ns
    return start_ns + by_ns
