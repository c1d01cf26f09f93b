"""Each row of the table of excuses has a legal history that needs it: without the row it is a violation.

The other way round, `tests/checkers/mutations` shows what checkers still find where the row applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from staticfire.checkers.guarantees.excuses import excuses
from staticfire.checkers.guarantees.excuses.excuse import Excuse
from staticfire.checkers.guarantees.excuses.excuse_table import EXCUSES
from tests.checkers.guarantees.excuses import (
    groups,
    locks,
    log,
    offsets,
    routes,
    sends,
    transactions,
    waits,
)
from tests.checkers.legal_histories import Legal

ROOMS = (groups, locks, offsets, log, waits, transactions, sends, routes)
HISTORIES = tuple(legal for room in ROOMS for legal in room.histories())


def test_every_row_has_one() -> None:
    rows = {(anomaly, row.mechanism) for anomaly, rows in EXCUSES.items() for row in rows}
    assert {legal.row for legal in HISTORIES} == rows


@pytest.mark.slow
@pytest.mark.parametrize("legal", HISTORIES, ids=lambda legal: ": ".join(legal.row))
def test_it_is_legal_only_by_its_row(legal: Legal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert legal.violations() == 0
    monkeypatch.setattr(excuses, "EXCUSES", _without(legal))
    assert legal.violations() > 0


def _without(legal: Legal) -> Mapping[str, tuple[Excuse, ...]]:
    anomaly, mechanism = legal.row
    left = tuple(row for row in EXCUSES[anomaly] if row.mechanism != mechanism)
    return MappingProxyType({**EXCUSES, anomaly: left})
