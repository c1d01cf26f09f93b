"""The simulated disk and the real one keep the same contract."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from staticfire.harness.simulation.disk.disk import SimDisk
from staticfire.system_under_test.runtime.env import Storage
from staticfire.system_under_test.runtime.real_env import RealStorage
from tests.support.storage_contract import CHECKS, Check


def simulated(folder: Path) -> Storage:
    disk = SimDisk(random=Random("contract"), now_ns=lambda: 0, charge=lambda ns: None)
    disk.makedirs(str(folder))
    return disk


def real(folder: Path) -> Storage:
    return RealStorage()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make_storage", [simulated, real])
def test_contract(make_storage: Callable[[Path], Storage], check: Check, tmp_path: Path) -> None:
    check(make_storage(tmp_path), str(tmp_path))
