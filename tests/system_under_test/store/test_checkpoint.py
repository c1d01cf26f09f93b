"""The checkpoint: what a start reads when the page cache differs from the disk."""

from __future__ import annotations

import pytest

from staticfire.harness.simulation.disk.options import DiskOptions
from staticfire.system_under_test.store.checkpoint import Checkpoint
from tests.support.disks import make_disk, restart


@pytest.mark.parametrize(("forgets", "index_ms"), [(True, 510), (False, 259)])
def test_times_whose_fsync_failed_are_not_on_the_disk(forgets: bool, index_ms: int) -> None:
    """Crashes of the store, seed 2000754: an index file was cut because of times that only the page cache had."""
    disk = make_disk(options=DiskOptions(failed_sync_keeps_cache=True))
    checkpoint = Checkpoint(disk, "/d/checkpoint")
    checkpoint.open()
    disk.fsync_dir("/d")
    checkpoint.write(physic_ms=600, logics_ms=600, index_ms=510)
    checkpoint.sync()
    disk.fail_fsync()
    with pytest.raises(OSError, match="Errno"):
        checkpoint.lower_index_to(259)

    after_a_kill = Checkpoint(disk, "/d/checkpoint")
    after_a_kill.open(forgets=forgets)

    assert after_a_kill.index_ms == index_ms
    restart(disk)
    after_a_power_cut = Checkpoint(disk, "/d/checkpoint")
    after_a_power_cut.open(forgets=True)
    assert after_a_power_cut.index_ms == 510


@pytest.mark.parametrize(
    ("times", "lowered"),
    [
        ((600, 300, 100), (400, 300, 100)),
        ((300, 600, 100), (300, 400, 100)),
        ((300, 300, 400), (300, 300, 399)),
        ((400, 400, 399), (400, 400, 399)),
    ],
)
def test_each_time_is_lowered_alone(
    times: tuple[int, int, int], lowered: tuple[int, int, int]
) -> None:
    disk = make_disk()
    checkpoint = Checkpoint(disk, "/d/checkpoint")
    checkpoint.open()
    physic_ms, logics_ms, index_ms = times
    checkpoint.write(physic_ms=physic_ms, logics_ms=logics_ms, index_ms=index_ms)
    checkpoint.lower_to(400)
    assert (checkpoint.physic_ms, checkpoint.logics_ms, checkpoint.index_ms) == lowered
