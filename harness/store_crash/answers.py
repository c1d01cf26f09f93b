"""Compares the answers of a recovered store with the model of a storage crash cycle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from staticfire.harness.store_crash.model import LogModel, PromiseBroken, PutRecord, QueueKey
from staticfire.harness.store_crash.plan import QUEUES
from staticfire.harness.store_crash.raw_record import key_hash
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.index.key_search import KeyFound, KeyQuery
from staticfire.system_under_test.store.reading.reading import GetStatus

END_OF_TIME_MS = (1 << 63) - 1
LOOK_UPS = 3  # records looked up after each recovery
_BATCH = 32  # messages of a pull


class QueueFile(NamedTuple):
    """A file of a consume queue: number of its first entry, number of entries, and time of its last modification."""

    first: int
    entries: int
    modified_ms: int


class AnswerComparison:
    """Compares answers of the store with the model.

    `rocketmq_reads`: key search and time search are RocketMQ's. They do not find every message, but it is defined which
    ones they miss.
    """

    def __init__(
        self, model: LogModel, draw: Callable[[int], int], *, rocketmq_reads: bool
    ) -> None:
        self._model = model
        self._draw = draw
        self._rocketmq_reads = rocketmq_reads

    def check_queue(self, queue: QueueKey, store: MessageStore) -> None:
        """Check the bounds of a queue, and that pulls return what was put."""
        expected = self._model.records(queue)
        first, end = self._model.first(queue), self._model.count(queue)
        bounds = store.queue_bounds(*queue)
        if bounds != (first, end):
            raise PromiseBroken(f"consume queue {queue} is {bounds}, not {(first, end)}")
        found: list[bytes] = []
        while len(found) < len(expected):
            offset = first + len(found)
            answer = store.get(*queue, offset, _BATCH, None)
            if answer.status is not GetStatus.FOUND or answer.next_offset <= offset:
                raise PromiseBroken(f"{queue} offset {offset} answers {answer.status}")
            found += answer.records
        if found != expected:
            raise PromiseBroken(f"{queue} does not give back what was put")

    def check_first(self, queue: QueueKey, store: MessageStore) -> None:
        """Check that a deletion has left the entries of the messages that stay."""
        begin, first = store.queue_bounds(*queue)[0], self._model.first(queue)
        if begin > first:
            raise PromiseBroken(f"consume queue {queue} begins at {begin}; {first} was not deleted")

    # --- by key ---------------------------------------------------------------------------------------------------

    def check_keys(self, store: MessageStore, every: int = 1) -> None:
        """Check that each key finds its messages, each once, and no others.

        `every`: check one of this many keys.
        """
        by_key: dict[tuple[str, str], list[PutRecord]] = {}
        by_hash: dict[int, list[PutRecord]] = {}  # a message may have two keys with the same hash
        for put in self._model.kept:
            for key in put.keys:
                by_key.setdefault((put.queue[0], key), []).append(put)
                by_hash.setdefault(key_hash(put.queue[0], key), []).append(put)
        start = self._draw(every)
        for topic, key in list(by_key)[start::every]:
            puts, candidates = by_key[topic, key], by_hash[key_hash(topic, key)]
            if self._rocketmq_reads:
                limit = 1 + self._draw(len(candidates))
                newest = {put.physical_offset: put for put in candidates[-limit:]}
                expected = [put.raw for put in newest.values()]
                query = KeyQuery(topic, key, limit, 0, END_OF_TIME_MS)
            else:
                limit = len(puts) + 1 if self._draw(2) else 1 + self._draw(len(puts))
                expected = [put.raw for put in puts[-limit:]]
                # not ascending if the clock was set back
                times_ms = [put.stored_ms for put in puts]
                query = KeyQuery(topic, key, limit, min(times_ms), max(times_ms))
            found = store.find_by_key(query)
            if found.records != expected:
                raise PromiseBroken(
                    f"key {key} of {topic} leads to {len(found.records)} messages, not the {len(expected)} put"
                )
            self._check_end_of_index(found)

    def _check_end_of_index(self, found: KeyFound) -> None:
        """Check the position and the store time of the last indexed message, which an answer contains.

        If the clock was set back, the time may be that of an earlier message.
        """
        last = next(put for put in reversed(self._model.kept) if put.keys)
        if found.last_update_offset != last.physical_offset:
            raise PromiseBroken(
                f"the index reaches up to {found.last_update_offset}, not {last.physical_offset}"
            )
        latest_ms = max(put.stored_ms for put in self._model.puts)
        if not last.stored_ms <= found.last_update_ms <= latest_ms:
            raise PromiseBroken(
                f"the index reaches up to a message of {found.last_update_ms};"
                f" it was stored at {last.stored_ms}, and none after {latest_ms}"
            )

    # --- by offset ------------------------------------------------------------------------------------------------

    def check_look_ups(self, store: MessageStore) -> None:
        """Check that a physical offset finds its record, and that an image of a record inside a body is not found."""
        kept = self._model.kept
        for put in [put for put in kept if put.forged_at is not None]:
            assert put.forged_at is not None
            if store.look_up(put.forged_at) is not None:
                raise PromiseBroken(f"the body at {put.physical_offset} passes for a record")
        for _ in range(LOOK_UPS if kept else 0):
            put = kept[self._draw(len(kept))]
            if store.look_up(put.physical_offset) != put.raw:
                raise PromiseBroken(f"no look-up finds the record at {put.physical_offset}")

    # --- by time --------------------------------------------------------------------------------------------------

    def check_times(
        self, store: MessageStore, files: Callable[[QueueKey], list[QueueFile]]
    ) -> None:
        """Search one queue by the time of a message, by times around it, and by times before and after all messages."""
        queue = QUEUES[self._draw(len(QUEUES))]
        times_ms = [put.stored_ms for put in self._model.kept if put.queue == queue]
        if not times_ms:
            return
        number = self._draw(len(times_ms))
        around = times_ms[max(0, number - 1) : number + 2]
        between = [(one + other) // 2 for one, other in pairwise(around)]
        tried = {times_ms[0] - 1, *around, *between, times_ms[-1], times_ms[-1] + 1}
        for time_ms in sorted(tried):
            found = store.queue_view.search_by_time(*queue, time_ms)
            allowed = self._at_time(queue, times_ms, time_ms, files)
            if found not in allowed:
                raise PromiseBroken(
                    f"{queue} at {time_ms} ms begins at {found}; right is {sorted(allowed)}"
                )

    def _at_time(
        self,
        queue: QueueKey,
        times_ms: list[int],
        time_ms: int,
        files: Callable[[QueueKey], list[QueueFile]],
    ) -> set[int]:
        """Return the correct answers of a time search. There are several if the clock was set back."""
        first = self._model.first(queue)
        numbers = range(first, first + len(times_ms))
        if not self._rocketmq_reads:
            return {first + number for number in nearest(times_ms, time_ms)}
        found = files(queue)
        chosen = next((file for file in found if file.modified_ms >= time_ms), found[-1])
        inside = [n for n in numbers if chosen.first <= n < chosen.first + chosen.entries]
        if not inside:
            return {max(0, chosen.first - 1)}
        stored_ms = [times_ms[number - first] for number in inside]
        of_this_time = {
            number for number, each in zip(inside, stored_ms, strict=True) if each == time_ms
        }
        return of_this_time | {inside[number] for number in nearest(stored_ms, time_ms)}


def nearest(times_ms: Sequence[int], time_ms: int) -> set[int]:
    """Return the positions nearest to a time, one for each point where earlier times are followed by later ones.

    Of two equal distances the earlier position counts, and of equal times the first position. For a time after all
    others it is the last position.
    """
    is_earlier = [True, *(each < time_ms for each in times_ms), False]
    found: set[int] = set()
    for later, (before, at) in enumerate(pairwise(is_earlier)):
        if not before or at:
            continue
        if later in (0, len(times_ms)):
            found.add(max(0, later - 1))
            continue
        is_nearer = time_ms - times_ms[later - 1] > times_ms[later] - time_ms
        found.add(later if is_nearer or times_ms[later] == time_ms else later - 1)
    return found
