"""Finds the message of a queue stored closest to a time (code 29; RocketMQ, ConsumeQueue.getOffsetInQueueByTime)."""

from __future__ import annotations

from collections.abc import Callable

from staticfire.system_under_test.store.queues.consume_queue import ENTRY_SIZE, ConsumeQueue
from staticfire.system_under_test.store.reading.reading import QueueReader

# (reader, queue, time in ms) -> queue offset; 0 if there is none.
TimeSearch = Callable[[QueueReader, ConsumeQueue, int], int]


def nearest_in_queue(reader: QueueReader, queue: ConsumeQueue, timestamp_ms: int) -> int:
    """Search by store times alone. A tie goes to the earlier time, and among equal times to the first message.

    A time after the last message finds the last one.
    """
    low, high = queue.min_offset, queue.max_offset
    if low >= high:
        return 0
    while low < high:
        middle = (low + high) // 2
        if reader.store_time_ms(queue, middle) < timestamp_ms:
            low = middle + 1
        else:
            high = middle
    if low == queue.max_offset:
        return low - 1
    if low == queue.min_offset:
        return low
    after = reader.store_time_ms(queue, low) - timestamp_ms
    before = timestamp_ms - reader.store_time_ms(queue, low - 1)
    return low - 1 if after > 0 and before <= after else low


def nearest_in_file(reader: QueueReader, queue: ConsumeQueue, timestamp_ms: int) -> int:
    """RocketMQ's way: search only the first file whose modification time is `timestamp_ms` or later.

    Copying a store, or repairing its end, gives old files a new time: the answer is then too early. A clock that was
    set back between a put and its dispatch gives a file a time before that of its messages: the answer is then in a
    later file, and a reader that begins there skips messages. Among equal times it may find any message.
    """
    files = queue.files.files
    chosen = next((file for file in files if queue.files.modified_ms(file) >= timestamp_ms), None)
    if chosen is None and files:
        chosen = files[-1]
    if chosen is None:
        return 0
    first = chosen.base // ENTRY_SIZE
    low = max(first, queue.min_offset)
    high = min(first + queue.files.file_size // ENTRY_SIZE, queue.max_offset) - 1
    left = right = first - 1
    left_ms = right_ms = -1
    while low <= high:
        middle = first + (low - first + high - first) // 2
        if reader.is_deleted(queue, middle):
            low, left = middle + 1, middle
            continue
        stored_ms = reader.store_time_ms(queue, middle)
        if stored_ms < 0:
            return 0
        if stored_ms == timestamp_ms:
            return middle
        if stored_ms > timestamp_ms:
            high, right, right_ms = middle - 1, middle, stored_ms
        else:
            low, left, left_ms = middle + 1, middle, stored_ms
    if left_ms == -1:
        return max(0, right)
    if right_ms == -1:
        return left
    return right if timestamp_ms - left_ms > right_ms - timestamp_ms else left
