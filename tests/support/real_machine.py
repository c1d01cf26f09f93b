"""A fixture: the real machine, for tests that break it and must leave it as they found it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from staticfire.faults.linux.executor import LocalExecutor
from staticfire.faults.linux.inventory import Inventory, clean, read_journal
from staticfire.faults.linux.machine import LinuxMachine
from tests.support.leftovers import find_leftovers


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[LinuxMachine]:
    """This machine, with an inventory; at the end nothing that was made may be left."""
    inventory = Inventory.begin(tmp_path / "state")
    yield LinuxMachine(executor=LocalExecutor(), inventory=inventory, python=sys.executable)
    made = [str(resource) for resource in inventory.made]
    inventory.close()
    if made:  # whatever happened: the next test finds a clean machine
        asyncio.run(clean(read_journal(inventory.path), lambda _: LocalExecutor()))
    assert made == []
    assert find_leftovers(inventory.identity, os.fspath(tmp_path)) == []
