"""First deliveries to groups: the data that groups share, and the memory it takes."""

from __future__ import annotations

import numpy as np

from staticfire.checkers.derived.first_deliveries import (
    NEVER_NS,
    first_consumed_ns,
    first_deliveries,
)
from staticfire.checkers.model.columns import EVENT_FIELDS
from tests.benchmarks.made_up_queues import MadeUpQueues

MADE = MadeUpQueues(sends=40, queues=2, groups=2)


def test_each_group_has_its_own_times() -> None:
    columns = MADE.columns(0)
    delivered = columns.deliveries
    for number, group in enumerate(MADE.groups):
        mine = delivered.group == number
        ended = dict(zip(delivered.message[mine], delivered.time_ns[mine], strict=True))
        began = dict(zip(delivered.message[mine], delivered.invoke_ns[mine], strict=True))
        messages = columns.sends.message.tolist()
        assert first_consumed_ns(columns, group).tolist() == [ended[one] for one in messages]
        assert first_deliveries(columns, group).tolist() == [began[one] for one in messages]


def test_groups_that_were_given_nothing_share_one_array() -> None:
    """There may be hundreds of them."""
    columns = MADE.columns(0)
    one, other = (first_deliveries(columns, group) for group in ("unknown", "unknown, too"))
    assert one is other
    assert np.all(one == NEVER_NS)
    assert len(one) == len(columns.sends)


def test_no_rows_hold_no_rows_in_memory() -> None:
    sends = MADE.columns(0).sends
    nothing = sends.where(slice(0))
    assert len(nothing) == 0
    for name in EVENT_FIELDS:
        column = getattr(nothing, name)
        assert column.dtype == getattr(sends, name).dtype
        assert not np.shares_memory(column, getattr(sends, name))
        assert column.base is None or column.base.nbytes <= 8
