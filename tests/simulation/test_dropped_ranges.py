"""What a power cut dropped is what differs: bytes outside of the ranges are as they were written."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from staticfire.harness.simulation.disk.disk import SimDisk


@pytest.mark.parametrize("seed", range(60))
def test_the_ranges_hold_every_byte_that_differs(seed: int) -> None:
    random = Random(seed)
    clock = [0]
    disk = SimDisk(random=Random(f"disk {seed}"), now_ns=lambda: clock[0], charge=lambda ns: None)
    disk.makedirs("/store")
    opened = disk.open("/store/log", create=True)
    opened.pwrite(bytes(3000), 0)
    opened.fsync()
    disk.fsync_dir("/store")
    disk.fsync_dir("/")
    for _ in range(random.randrange(1, 6)):
        clock[0] += 1_000_000_000
        size = random.randrange(1, 2000)
        opened.pwrite(random.randbytes(size), random.randrange(4000))
    written = disk.read_cached("/store/log")
    report = disk.power_cut()
    kept = disk.read_cached("/store/log").ljust(len(written), b"\0")
    differing = {at for at, byte in enumerate(written) if kept[at] != byte}
    ranges = [(one.start, one.end) for one in report.dropped if one.path == "/store/log"]
    covered = {at for start, end in ranges for at in range(start, end)}
    assert differing <= covered
    assert bool(differing) == bool(covered)
    assert {at // 512 for at in differing} == {at // 512 for at in covered}
    assert all(end < start for (_, end), (start, _) in pairwise(ranges))
    incident = disk.incidents[-1]
    assert (incident.at_ns, incident.what) == (clock[0], "power cut")
    assert incident.dropped == report.dropped


def test_an_error_is_remembered_with_its_moment() -> None:
    clock = [0]
    disk = SimDisk(random=Random(1), now_ns=lambda: clock[0], charge=lambda ns: None)
    opened = disk.open("/log", create=True)
    disk.fail_write()
    clock[0] = 7
    with pytest.raises(OSError, match="Input/output"):
        opened.pwrite(b"x", 0)
    assert [(one.at_ns, one.what) for one in disk.incidents] == [(7, "write error")]
