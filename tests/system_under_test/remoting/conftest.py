"""An Env for nodes that need only its log."""

from __future__ import annotations

import random

import pytest

from staticfire.system_under_test.runtime.env import Env
from staticfire.system_under_test.runtime.real_env import RealClock, RealStorage
from tests.system_under_test.remoting.manual_loop import MemoryLog


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture
def env(log: MemoryLog) -> Env:
    return Env(
        name="node", storage=RealStorage(), clock=RealClock(), random=random.Random(1), log=log
    )
