"""Delivers delayed messages when they are due (RocketMQ, ScheduleMessageService).

Messages of one level wait as long as each other, so a level is a queue of which only the head has to be looked at. A
message whose delivery fails stays the head. Decisions only: `DelayTimer` says when to look.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from staticfire.system_under_test.broker.delivery.safe_progress import SafeProgress
from staticfire.system_under_test.broker.metadata.topic_redirection import real_destination
from staticfire.system_under_test.broker.metadata.topics import HALF_TOPIC
from staticfire.system_under_test.broker.sending.internal_copies import InternalCopies
from staticfire.system_under_test.broker.statistics.statistics import BrokerStatistics
from staticfire.system_under_test.protocol.message import Message, RecordError, decode_record
from staticfire.system_under_test.runtime.env import Clock, Log
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.delay_levels import SCHEDULE_TOPIC
from staticfire.system_under_test.store.queues.consume_queue import Entry
from staticfire.system_under_test.store.results import PutStatus

TOLERANCE_MS = 50  # of the wall clock: a smaller difference is rounding, or slewing
NS_PER_MS = 1_000_000
RETRY_MS = 100  # RocketMQ, DELAY_FOR_A_WHILE
LOOK_INTERVAL_MAX_MS = 1_000  # the wall clock may step meanwhile
DELIVERED_AT_ONCE_MAX = 64  # messages of one level in one look: others want to be served, too

# Time to wait for a message, given when it seems due, from now on, and the delay of its level (all ms).
RemainingTime = Callable[[int, int], int]


class ClockSteps:
    """Measures by the monotonic clock how far the wall clock has jumped between two looks."""

    __slots__ = ("_ahead_ms", "_clock")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ms = self._difference_ms()

    def _difference_ms(self) -> int:
        return self._clock.wall_ms() - self._clock.monotonic_ns() // NS_PER_MS

    def take_step_ms(self) -> int:
        """Milliseconds by which the clock was set forward (or back, below 0) since the last call; mostly 0."""
        step_ms = self._difference_ms() - self._ahead_ms
        if abs(step_ms) <= TOLERANCE_MS:
            return 0
        self._ahead_ms += step_ms
        return step_ms


def never_early(remaining_ms: int, delay_ms: int) -> int:
    """The clock was set back since the message was stored: wait its full delay once more, not longer."""
    return min(remaining_ms, delay_ms)


def at_once_if_too_far(remaining_ms: int, delay_ms: int) -> int:
    """RocketMQ, correctDeliverTimestamp: a message that seems due later than it can be is delivered now."""
    return 0 if remaining_ms > delay_ms else remaining_ms


@dataclass(slots=True, kw_only=True)
class _Shift:
    """The clock was set by `step_ms` after the messages below `end_offset` had been stored.

    These are due at `due_by_ms` of the monotonic clock, at the latest, whatever their store times say: after the clock
    was set back all of them have the same.
    """

    end_offset: int
    step_ms: int
    due_by_ms: int


class _Level:
    """The queue of one delay level."""

    __slots__ = ("delay_ms", "head", "progress", "queue_id", "seen_end", "shifts")

    def __init__(self, queue_id: int, delay_ms: int) -> None:
        self.queue_id = queue_id
        self.delay_ms = delay_ms
        self.progress = SafeProgress(0)
        self.head: tuple[int, int] | None = None  # offset and monotonic ms when it is due
        self.shifts: list[_Shift] = []
        self.seen_end = 0  # up to there the times of messages have been looked at

    def note_step(self, step_ms: int, end_offset: int, now_ms: int) -> None:
        """The wall clock has stepped; messages below `end_offset` are there at `now_ms` of the monotonic clock."""
        due_by_ms = now_ms + self.delay_ms
        self.shifts.append(_Shift(end_offset=end_offset, step_ms=step_ms, due_by_ms=due_by_ms))

    def forget_steps(self) -> None:
        """Those that do not concern what waits."""
        position = self.progress.position
        self.shifts = [shift for shift in self.shifts if shift.end_offset > position]

    def shift_ms(self) -> int:
        """How much later by today's clock the head is due than its entry says."""
        return sum(shift.step_ms for shift in self.shifts)

    def due_ms(self, guess_ms: int) -> int:
        """When the head is due by the monotonic clock, if its entry says `guess_ms`."""
        return min([guess_ms, *(shift.due_by_ms for shift in self.shifts)])


class DelayedDelivery:
    """All delay levels of a master."""

    def __init__(
        self,
        store: MessageStore,
        copies: InternalCopies,
        statistics: BrokerStatistics,
        clock: Clock,
        log: Log,
        *,
        levels_ms: tuple[int, ...],
        remaining_time: RemainingTime,
    ) -> None:
        self._store = store
        self._copies = copies
        self._statistics = statistics
        self._clock = clock
        self._log = log
        self._remaining_time = remaining_time
        self._levels = [_Level(number, delay_ms) for number, delay_ms in enumerate(levels_ms)]
        self._steps = ClockSteps(clock)

    # Progress

    def begin(self, offsets: Mapping[int, int]) -> list[str]:
        """Go on at these offsets (by level, from 1), within the queues; return what had to be changed, for the log.

        An offset beyond its queue would silence the level for good: nothing is ever stored there (issue 1869).
        """
        changed = []
        for level in self._levels:
            wanted = offsets.get(level.queue_id + 1, 0)
            low, high = self._store.queue_bounds(SCHEDULE_TOPIC, level.queue_id)
            offset = min(max(wanted, low), high)
            if offset != wanted:
                changed.append(f"level {level.queue_id + 1}: {wanted} -> {offset}")
            level.progress.jump(offset)
        return changed

    def offsets(self) -> dict[int, int]:
        """Progress by level, from 1, of the levels that have any: only deliveries that cannot be lost any more."""
        safe_end = self._copies.safe_end()
        found = {level.queue_id + 1: level.progress.confirm(safe_end) for level in self._levels}
        return {number: offset for number, offset in found.items() if offset}

    # Delivery

    def deliver_due(self) -> int | None:
        """Deliver what is due; return in how many ms to look again, None if nothing waits."""
        self.notice_clock_step()
        waits = [self._look_at(level) for level in self._levels]
        return min((wait_ms for wait_ms in waits if wait_ms is not None), default=None)

    def notice_clock_step(self) -> None:
        """Call before a delayed message is put: its time is of today's clock, that of those before it may not be."""
        step_ms = self._steps.take_step_ms()
        if not step_ms:
            return
        for level in self._levels:
            self._note_step(level, step_ms)

    def _note_step(self, level: _Level, step_ms: int) -> None:
        end_offset = self._store.queue_view.next_offset(SCHEDULE_TOPIC, level.queue_id)
        level.note_step(step_ms, end_offset, self._now_ms())

    def _now_ms(self) -> int:
        return self._clock.monotonic_ns() // NS_PER_MS

    def _look_at(self, level: _Level) -> int | None:
        progress = level.progress
        low, visible_end = self._store.queue_bounds(SCHEDULE_TOPIC, level.queue_id)
        if progress.position < low:
            progress.jump(low)
        if visible_end != level.seen_end:
            self._look_at_arrivals(level, visible_end)
        if progress.position >= visible_end:
            stored_end = self._store.queue_view.next_offset(SCHEDULE_TOPIC, level.queue_id)
            return RETRY_MS if stored_end > visible_end else None
        entries = self._store.queue_view.entries(
            SCHEDULE_TOPIC, level.queue_id, progress.position, DELIVERED_AT_ONCE_MAX
        )
        for entry in entries:
            remaining_ms = self._remaining_ms(level, entry)
            if remaining_ms > 0:
                return min(remaining_ms, LOOK_INTERVAL_MAX_MS)
            if not self._deliver(level, entry):
                return RETRY_MS
        return 0

    def _look_at_arrivals(self, level: _Level, end: int) -> None:
        """Times in a log never go back when the clock does: what comes then is due by now and its delay."""
        level.seen_end = end
        for last in self._store.queue_view.entries(SCHEDULE_TOPIC, level.queue_id, end - 1, 1):
            if last.tags_code - self._clock.wall_ms() > level.delay_ms + TOLERANCE_MS:
                self._note_step(level, 0)

    def _remaining_ms(self, level: _Level, entry: Entry) -> int:
        """How long the head has to wait. Decided when it becomes the head: later steps of the clock do not matter."""
        offset = level.progress.position
        now_ms = self._now_ms()
        if level.head is None or level.head[0] != offset:
            level.forget_steps()
            seems_ms = entry.tags_code + level.shift_ms() - self._clock.wall_ms()
            wait_ms = self._remaining_time(seems_ms, level.delay_ms)
            if wait_ms < seems_ms:  # nor shall those behind it wait one after the other
                self._note_step(level, 0)
            level.head = (offset, level.due_ms(now_ms + wait_ms))
        return level.head[1] - now_ms

    def _deliver(self, level: _Level, entry: Entry) -> bool:
        """Store the message where it was sent to; False if that has to be tried again."""
        message = self._read(entry)
        if message is None:
            if self._store.waits_for_repair(entry.physical_offset, entry.size):
                return False
            level.progress.advance()
            return True
        result = self._copies.put(message)
        if result.status is not PutStatus.PUT_OK:
            return False
        self._statistics.delivered(level.queue_id, result.size_bytes)
        level.progress.advance(result.end_offset)
        return True

    def _read(self, entry: Entry) -> Message | None:
        """The message as it is delivered; None, with a line in the log, if it cannot be."""
        record = self._store.record_of_entry(entry.physical_offset)
        try:
            message = None if record is None else decode_record(record)
        except RecordError:
            message = None
        destination = None if message is None else real_destination(message)
        if message is None or destination is None or destination[0] == HALF_TOPIC:
            self._log.error("delayed message cannot be delivered", offset=entry.physical_offset)
            return None
        topic, queue_id = destination
        return replace(message, topic=topic, queue_id=queue_id)
