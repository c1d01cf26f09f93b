"""Benches for the tests of single processors."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.broker.config import BrokerRole
from tests.system_under_test.broker.bench import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def slave_bench() -> Bench:
    return Bench(BrokerRole.SLAVE)
