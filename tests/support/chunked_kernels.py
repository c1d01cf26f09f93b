"""Kernels on chunks of columns: of whole partitions, and of one queue held against the kernel on the whole queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from random import Random
from typing import Any

import numpy as np

from staticfire.checkers.engine.kernel import Context, Kernel
from staticfire.checkers.guarantees.verdict import Tally, Verdict
from staticfire.checkers.model.columns import (
    UNKNOWN,
    Chunk,
    Columns,
    Commits,
    Ints,
    MessageEvents,
    PartitionKey,
)

END = 1 << 40


def partitions(columns: Columns, key: PartitionKey, chunks: int) -> Iterator[Columns]:
    """Cut into chunks of whole partitions, by id modulo `chunks`. By message all commits are in every chunk."""

    def ids(rows: MessageEvents | Commits) -> Ints:
        if key == "message":
            assert isinstance(rows, MessageEvents)
            return rows.message
        if key == "log" or not columns.names.logs:
            return rows.log
        return np.where(rows.log == UNKNOWN, UNKNOWN, columns.names.stream_of_log[rows.log])

    sends, deliveries, commits = columns.sends, columns.deliveries, columns.commits
    for chunk in range(chunks):
        yield Columns(
            names=columns.names,
            sends=sends.where(ids(sends) % chunks == chunk),
            deliveries=deliveries.where(ids(deliveries) % chunks == chunk),
            commits=commits if key == "message" else commits.where(ids(commits) % chunks == chunk),
        )


def check_chunks(kernel: Kernel, columns: Columns, context: Context, chunks: int) -> Verdict:
    """Give the verdict of `kernel.check`, computed in chunks of whole partitions."""
    parts = partitions(columns, kernel.partition_by, chunks)
    tallies = (kernel.partial(part, context) for part in parts)
    return kernel.finish(reduce(Tally.merge, tallies, Tally()), context)


def check_pieces_of_queues(
    kernel: Kernel, columns: Columns, context: Context, cuts: Sequence[int], random: Random
) -> None:
    """Assert that each queue, cut at these offsets, gives the tally of the whole queue, in any order of chunks."""
    split = kernel.split
    assert split is not None
    for queue in range(len(columns.names.logs)):
        looks: list[Any] = []
        for number, (first, end) in enumerate(zip([0, *cuts], [*cuts, END], strict=True)):
            chunk = Chunk(
                queue=queue,
                number=number,
                first_offset=first,
                last_offset=end - 1,
                commits=columns.commits,
                given={},
            )
            part = replace(_of_queue(columns, queue, first, end), chunk=chunk)
            looks.append(split.scan(part, context, chunk))
        random.shuffle(looks)
        state = reduce(lambda one, other: one.merge(other), looks)
        whole = _of_queue(columns, queue, 0, END)
        assert split.conclude(state, columns, context) == kernel.partial(whole, context)


def _of_queue(columns: Columns, queue: int, first: int, end: int) -> Columns:
    sends, deliveries = (
        rows.where((rows.log == queue) & (rows.queue_offset >= first) & (rows.queue_offset < end))
        for rows in (columns.sends, columns.deliveries)
    )
    return Columns(names=columns.names, sends=sends, deliveries=deliveries, commits=columns.commits)
