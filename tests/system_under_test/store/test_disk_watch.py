"""The fill level of a disk, by RocketMQ's count."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.runtime.env import DiskUsage
from staticfire.system_under_test.store.disk_watch import UNREADABLE, DiskWatch
from tests.system_under_test.store.store_on_disk import StoreOnDisk


@pytest.mark.needs_sources
@pytest.mark.parametrize(
    ("total", "free", "reserved", "ratio"),
    [
        (1000, 1000, 0, 0.0),
        (1000, 999, 0, 0.01),  # rounded up
        (1000, 100, 0, 0.9),
        (1000, 100, 800, 0.5),  # what is reserved for root is neither used nor ours
        (1000, 0, 50, 1.0),
        (0, 0, 0, UNREADABLE),
    ],
)
def test_used_ratio(
    monkeypatch: pytest.MonkeyPatch, total: int, free: int, reserved: int, ratio: float
) -> None:
    usage = DiskUsage(total_bytes=total, free_bytes=free, reserved_bytes=reserved)
    world = StoreOnDisk()
    world.open()
    disks: DiskWatch = world.store.disks
    monkeypatch.setattr(world.disk, "disk_usage", lambda _path: usage)
    assert disks.used_ratio("/store") == ratio
