"""Delivers delayed messages when they are due (RocketMQ, ScheduleMessageService).

All messages of one level have the same delay, so a level is a queue of which only the head has to be examined. A
message whose delivery fails stays the head. This module only decides; `DelayTimer` calls it.
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

TOLERANCE_MS = 50  # a smaller difference between the clocks is rounding or slewing, not a step
NS_PER_MS = 1_000_000
RETRY_MS = 100  # RocketMQ, DELAY_FOR_A_WHILE
LOOK_INTERVAL_MAX_MS = 1_000  # between two checks, as the wall clock may step meanwhile
DELIVERED_AT_ONCE_MAX = 64  # messages of one level in one check, so that others are served, too

# (remaining time by the wall clock, delay of the level) -> time to wait for a message; all in ms.
RemainingTime = Callable[[int, int], int]


class ClockSteps:
    """Measures by the monotonic clock how far the wall clock has stepped between two calls."""

    __slots__ = ("_ahead_ms", "_clock")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ms = self._difference_ms()

    def _difference_ms(self) -> int:
        return self._clock.wall_ms() - self._clock.monotonic_ns() // NS_PER_MS

    def take_step_ms(self) -> int:
        """Milliseconds by which the wall clock was set forward (below 0: back) since the last call; mostly 0."""
        step_ms = self._difference_ms() - self._ahead_ms
        if abs(step_ms) <= TOLERANCE_MS:
            return 0
        self._ahead_ms += step_ms
        return step_ms


def never_early(remaining_ms: int, delay_ms: int) -> int:
    """Wait at most the full delay once more, even if the clock was set back since the message was stored."""
    return min(remaining_ms, delay_ms)


def at_once_if_too_far(remaining_ms: int, delay_ms: int) -> int:
    """RocketMQ, correctDeliverTimestamp: deliver a message now if it seems due later than it can be."""
    return 0 if remaining_ms > delay_ms else remaining_ms


@dataclass(slots=True, kw_only=True)
class _Shift:
    """A step of the wall clock by `step_ms` after the messages below `end_offset` had been stored.

    These are due at `due_by_ms` of the monotonic clock at the latest, regardless of their store times: after the clock
    was set back, all messages get the same store time.
    """

    end_offset: int
    step_ms: int
    due_by_ms: int


class _Level:
    """The queue of one delay level."""

    __slots__ = ("delay_ms", "head", "lost", "progress", "queue_id", "seen_end", "shifts")

    def __init__(self, queue_id: int, delay_ms: int) -> None:
        self.queue_id = queue_id
        self.delay_ms = delay_ms
        self.progress = SafeProgress(0)
        self.head: tuple[int, int] | None = None  # offset, and when it is due (monotonic ms)
        self.lost: list[int] = []  # physical offsets of deliveries to repeat
        self.shifts: list[_Shift] = []
        self.seen_end = 0  # offset up to which the due times of messages have been checked

    def note_step(self, step_ms: int, end_offset: int, now_ms: int) -> None:
        """Record a step of the wall clock at `now_ms` (monotonic), behind the messages below `end_offset`."""
        due_by_ms = now_ms + self.delay_ms
        self.shifts.append(_Shift(end_offset=end_offset, step_ms=step_ms, due_by_ms=due_by_ms))

    def forget_steps(self) -> None:
        """Drop the steps that concern no waiting message."""
        position = self.progress.position
        self.shifts = [shift for shift in self.shifts if shift.end_offset > position]

    def shift_ms(self) -> int:
        """How much later than its entry says the head is due by the current wall clock."""
        return sum(shift.step_ms for shift in self.shifts)

    def due_ms(self, guess_ms: int) -> int:
        """When the head is due, at `guess_ms` or earlier because of recorded steps (monotonic ms)."""
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
        """Start at these offsets (by level, from 1), moved into the queues' bounds; return the changes, for the log.

        With an offset beyond the end of its queue a level would skip all messages up to it (RocketMQ issue 1869).
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
        """Offsets by level, from 1, of levels that have progress; counts only deliveries whose copies are safe."""
        safe_end = self._copies.safe_end()
        found = {level.queue_id + 1: level.progress.confirm(safe_end) for level in self._levels}
        return {number: offset for number, offset in found.items() if offset}

    # Delivery

    def deliver_due(self) -> int | None:
        """Deliver due messages; return in how many ms to call again, None if no message waits."""
        self.notice_clock_step()
        waits = [self._look_at(level) for level in self._levels]
        return min((wait_ms for wait_ms in waits if wait_ms is not None), default=None)

    def notice_clock_step(self) -> None:
        """Record a step of the wall clock; call before a delayed message is put, so that the step lies before it."""
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
        if not self._deliver_lost(level):
            return RETRY_MS
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
        if not entries:  # the disk has lost them, and the store is about to stop
            return RETRY_MS
        for entry in entries:
            remaining_ms = self._remaining_ms(level, entry)
            if remaining_ms > 0:
                return min(remaining_ms, LOOK_INTERVAL_MAX_MS)
            if not self._deliver(level, entry):
                return RETRY_MS
        return 0

    def _look_at_arrivals(self, level: _Level, end: int) -> None:
        """Store times do not decrease when the clock is set back: let messages stored then be due after their delay."""
        level.seen_end = end
        for last in self._store.queue_view.entries(SCHEDULE_TOPIC, level.queue_id, end - 1, 1):
            if last.tags_code - self._clock.wall_ms() > level.delay_ms + TOLERANCE_MS:
                self._note_step(level, 0)

    def _remaining_ms(self, level: _Level, entry: Entry) -> int:
        """How long the head has to wait. This is fixed when it becomes the head: later steps do not change it."""
        offset = level.progress.position
        now_ms = self._now_ms()
        if level.head is None or level.head[0] != offset:
            level.forget_steps()
            seems_ms = entry.tags_code + level.shift_ms() - self._clock.wall_ms()
            wait_ms = self._remaining_time(seems_ms, level.delay_ms)
            if wait_ms < seems_ms:  # the messages behind it must not each wait the full delay again
                self._note_step(level, 0)
            level.head = (offset, level.due_ms(now_ms + wait_ms))
        return level.head[1] - now_ms

    def _deliver(self, level: _Level, entry: Entry) -> bool:
        """Store the message in its real topic; False if that has to be tried again."""
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
        level.progress.advance(result.end_offset, result.physical_offset)
        return True

    # Damage

    def note_damage(self, copy_offset: int) -> None:
        """The record at this physical offset is damaged. If it is a delivery that is not safe yet, do not save it."""
        for level in self._levels:
            level.progress.hold(copy_offset)

    def note_settled(self, copy_offset: int, *, is_lost: bool) -> bool:
        """A damaged record is repaired, or lost. Return whether a message is to be delivered once more."""
        again = False
        for level in self._levels:
            if level.progress.holds(copy_offset) and is_lost:
                level.lost.append(copy_offset)
                again = True
            else:
                level.progress.release(copy_offset)
        return again

    def _deliver_lost(self, level: _Level) -> bool:
        """Deliver again what was lost before it was safe, from the delayed message itself. False: try again later."""
        while level.lost:
            offset = level.progress.source_of(level.lost[0])
            message = None
            if offset is not None:
                for entry in self._store.queue_view.entries(
                    SCHEDULE_TOPIC, level.queue_id, offset, 1
                ):
                    message = self._read(entry)
                    if message is None and self._store.waits_for_repair(
                        entry.physical_offset, entry.size
                    ):
                        return False
            if message is None:
                level.progress.release(level.lost.pop(0))
                continue
            result = self._copies.put(message)
            if result.status is not PutStatus.PUT_OK:
                return False
            lost = level.lost.pop(0)
            self._log.warning("delayed message was delivered again", lost=lost)
            level.progress.renew(lost, result.physical_offset, result.end_offset)
        return True

    def _read(self, entry: Entry) -> Message | None:
        """The message with its real topic; logs an error and returns None if it cannot be delivered."""
        record = self._store.record_of(entry)
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
