"""Second copies of messages that a broker first keeps in an internal queue: delayed messages and committed halves.

A broker moves such a message to its topic, and records its progress later. If it dies in between, it moves the message
again after its restart. So each copy after the first needs a death of its broker (`moved_twice` of excuse_table.py).
Each attempt of a send may be a message of its own, moved in addition to the others. The death must come

* no later after the previous copy than the broker takes to record its progress. A hardened broker that stops gracefully
  records how far it has moved delayed messages, so there the copy must have been too new to be safe. Time in which a
  copy cannot become safe (`progress_held`) does not count, because the broker cannot record progress then;
* no earlier before this copy than the broker takes, after its restart, to reach the message again: at once for delayed
  messages, and with the next check for halves. Time in which it cannot do so does not count.

A broker moves a delayed message once, so the death is between the copies. It also appends a copy of a half to the end
of the half's queue each time it checks it. A broker that dies then has two copies of the half, checks both, and commits
both, one right after the other. So this death may be at any time since the half was sent.

Between two observed copies there may be unobserved ones, such as one that a power cut destroyed.

The time at which a copy was stored is known if deliveries report it and no clock was wrong. Otherwise it is between
the time at which the message was due and the first delivery of the copy, and the second condition is not checked.

Source: ScheduleMessageService.persist (flushDelayOffsetInterval), TransactionalMessageServiceImpl.check and
ConsumerOffsetManager.persist (flushConsumerOffsetInterval).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.excuses.excuses import Window
from staticfire.checkers.guarantees.fault_effects import CLOCK, EMPTIES, FORGETS, ROLLS_BACK
from staticfire.checkers.guarantees.promises import NS_PER_S
from staticfire.checkers.model.columns import UNKNOWN
from staticfire.checkers.model.intervals import Span, without

NS_PER_MS = 1_000_000
# most time until a broker that is back has moved due messages, up to 64 of a level at a time
DELIVERED_AGAIN_S = 10.0


class Copy(NamedTuple):
    """A position at which a group received the message."""

    given_ns: int  # time of its first delivery
    stored_ms: int  # by the wall clock of the broker; UNKNOWN if deliveries do not report it


class Kept(NamedTuple):
    """The known facts about the message."""

    since_ns: int  # the earliest time at which the broker can have moved it
    is_delayed: bool


def kept_messages(
    context: Context, broker: str, copies: Iterable[Copy], kept: Kept
) -> tuple[int, Window | None]:
    """Return the least number of kept messages that explains all these copies, and a death if one is needed.

    This is the least number of chains in which a death explains each copy after the previous one.

    Args:
        context: of the run.
        broker: the name of the replica set.
        copies: those at this broker.
        kept: facts about the message.
    """
    times = sorted(_stored(context, broker, copy, kept.since_ns) for copy in copies)
    deaths = {
        (one, other): death
        for other in range(len(times))
        for one in range(other)
        if (death := _death_between(context, broker, times[one], times[other], kept))
    }
    before: dict[int, int] = {}  # the copy of the same message before each one
    for one in range(len(times)):
        _link(one, deaths.keys(), before, set())
    used = [deaths[one, other] for other, one in sorted(before.items())]
    return len(times) - len(used), used[0] if used else None


def _link(
    one: int, links: Collection[tuple[int, int]], before: dict[int, int], tried: set[int]
) -> bool:
    """Find the next copy for copy `one`, and rearrange earlier choices if needed: a step of maximum matching."""
    for other in (of for since, of in links if since == one and of not in tried):
        tried.add(other)
        if other not in before or _link(before[other], links, before, tried):
            before[other] = one
            return True
    return False


def _stored(context: Context, broker: str, copy: Copy, since_ns: int) -> Span:
    """Return the earliest and the latest time at which a copy was stored."""
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
    written_ns = int(_written_s(context, kept) * NS_PER_S)
    unsafe_ns = int(_unsafe_s(context) * NS_PER_S)
    again_ns = int(_again_s(context, kept) * NS_PER_S)
    slow = (*held, *unanswered)
    first: Window | None = None
    early_ns = one.start_ns if kept.is_delayed else kept.since_ns
    moved_ns = one.end_ns  # the latest time of a move that may not have been recorded
    back_ns = one.end_ns  # the time from which on the broker can reach the message again
    for death in excuses.windows(f"moved_twice{alone}", broker):
        if death.end_ns < early_ns or death.start_ns > other.end_ns:
            continue
        unwritten_ns = written_ns
        if kept.is_delayed and _is_recorded_at_the_end(context, death):
            unwritten_ns = min(written_ns, unsafe_ns)
        if _free_ns(moved_ns, death.start_ns, held) > unwritten_ns:
            continue
        first = first or death
        slow = (*_held_after(context, broker, kept, death), *unanswered)
        back_ns = max(back_ns, death.end_ns)
        moved_ns = _later(max(moved_ns, death.end_ns), again_ns, slow)
    if first is None:
        return None
    is_known = other.length_ns <= NS_PER_MS
    late = is_known and _free_ns(back_ns, other.start_ns, slow) > again_ns
    return None if late else first


def _held_after(context: Context, broker: str, kept: Kept, death: Window) -> list[Span]:
    """Return the times in which a broker that is back may have to wait before it moves the message again.

    Before it moves any message, it fetches messages that its disk may lack from its followers, in every replication
    mode. A hardened broker whose disk lacks no message moves delayed messages without followers.
    """
    facts, effects = context.facts, death.fault.effects
    lacks = not {ROLLS_BACK, EMPTIES}.isdisjoint(effects)
    lacks = lacks or (FORGETS in effects and facts.leaders_keeping != "sync")
    with_followers = lacks or facts.mode != "hardened"
    alone = not with_followers and (kept.is_delayed or is_alone(context))
    return context.excuses.spans(f"progress_held{' unreplicated' if alone else ''}", broker)


def is_alone(context: Context) -> bool:
    """Whether a copy is safe without a follower: a hardened broker without synchronous replication."""
    facts = context.facts
    return facts.replication != "sync" and facts.mode == "hardened"


def _written_s(context: Context, kept: Kept) -> float:
    """Return the most time in seconds until the record of a move is on the disk of its broker.

    A broker records how far it has moved halves as an offset of a group, after each round of checks. The hardened
    system also does so whenever it records the progress of delayed messages.
    """
    facts, timings = context.facts, context.facts.timings
    recorded_s = timings.progress_s
    if not kept.is_delayed:
        rounds_s = facts.check_every_s
        if facts.mode == "hardened":
            rounds_s = min(rounds_s, timings.progress_s)
        recorded_s = rounds_s + timings.offset_persist_s
    return recorded_s + timings.flush_s + timings.request_s


def _is_recorded_at_the_end(context: Context, death: Window) -> bool:
    """Whether a broker that ends like this first records how far it has moved delayed messages."""
    forgets = not {FORGETS, ROLLS_BACK, EMPTIES}.isdisjoint(death.fault.effects)
    return context.facts.mode == "hardened" and not forgets


def _unsafe_s(context: Context) -> float:
    """Return how long a copy may be unsafe in seconds, so that a broker that ends does not record its move.

    The leader flushes the copy and sends it, and a follower flushes it and reports that.
    """
    timings = context.facts.timings
    return 2 * (timings.flush_s + timings.packet_s)


def _again_s(context: Context, kept: Kept) -> float:
    facts = context.facts
    if kept.is_delayed:
        return DELIVERED_AGAIN_S
    return facts.check_after_s + 2 * facts.check_every_s + DELIVERED_AGAIN_S


def _free_ns(start_ns: int, end_ns: int, held: Sequence[Span]) -> int:
    """Return the length in ns of an interval without the times in `held`."""
    return sum(span.length_ns for span in without([Span(start_ns, end_ns)], held))


def _later(start_ns: int, by_ns: int, held: Sequence[Span]) -> int:
    """Return the time at which `by_ns` have passed since `start_ns`, not counting the times in `held`."""
    left_ns = by_ns
    for span in without([Span(start_ns, start_ns + by_ns + sum(s.length_ns for s in held))], held):
        if span.length_ns >= left_ns:
            return span.start_ns + left_ns
        left_ns -= span.length_ns
    return start_ns + by_ns
