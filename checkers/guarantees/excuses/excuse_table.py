"""The table of excuses: one row for each mechanism by which a fault makes an anomaly legal.

For each row, `test_excuse_rows.py` has a legal history that is a violation without the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from types import MappingProxyType

from staticfire.checkers.guarantees.excuses import (
    groups,
    locks,
    log,
    offsets,
    routes,
    sends,
    transactions,
    waits,
)
from staticfire.checkers.guarantees.excuses.excuse import Excuse

_PARTS = (groups, locks, offsets, log, waits, transactions, sends, routes)


def _by_anomaly() -> Mapping[str, tuple[Excuse, ...]]:
    found: dict[str, tuple[Excuse, ...]] = {}
    for row in chain.from_iterable(part.ROWS for part in _PARTS):
        found[row.anomaly] = (*found.get(row.anomaly, ()), row)
    return MappingProxyType(found)


EXCUSES = _by_anomaly()
