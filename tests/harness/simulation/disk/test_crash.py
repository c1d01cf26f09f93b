"""Files after a power cut: the data that may be lost, the data that must stay, and that loss does occur."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from staticfire.harness.simulation.disk.disk import PowerCut, SimDisk
from tests.support.disks import durable_file, make_disk, restart

SEEDS = range(200)
SECTOR = 512


def outcomes(scenario: Callable[[SimDisk], None], path: str = "/d/f") -> set[bytes | None]:
    """What `path` holds after a power cut at the end of `scenario`, over all seeds; None if the name is gone."""
    found: set[bytes | None] = set()
    for seed in SEEDS:
        disk = make_disk(seed)
        scenario(disk)
        restart(disk)
        found.add(disk.read_cached(path) if disk.exists(path) else None)
    return found


def test_synced_data_always_survives() -> None:
    def scenario(disk: SimDisk) -> None:
        durable_file(disk, data=b"abc")

    assert outcomes(scenario) == {b"abc"}


def test_fdatasync_keeps_a_grown_size() -> None:
    def scenario(disk: SimDisk) -> None:
        file = durable_file(disk, data=b"abc")
        file.allocate(10)
        file.fdatasync()

    assert outcomes(scenario) == {b"abc".ljust(10, b"\0")}


def test_fsync_does_not_keep_the_name() -> None:
    def scenario(disk: SimDisk) -> None:
        file = disk.open("/d/f", create=True)
        file.pwrite(b"abc", 0)
        file.fsync()

    assert outcomes(scenario) == {None, b"abc"}


def test_fsync_dir_does_not_keep_the_data() -> None:
    def scenario(disk: SimDisk) -> None:
        disk.open("/d/f", create=True).pwrite(b"abc", 0)
        disk.fsync_dir("/d")

    assert outcomes(scenario) == {b"", b"\0\0\0", b"abc"}  # zeros: the size was journalled first


def test_unsynced_writes_may_be_torn_between_sectors_only() -> None:
    def scenario(disk: SimDisk) -> None:
        durable_file(disk, data=b"o" * 3 * SECTOR).pwrite(b"n" * 3 * SECTOR, 0)

    sectors = {
        tuple(content[start : start + SECTOR] for start in range(0, 3 * SECTOR, SECTOR))
        for content in outcomes(scenario)
        if content is not None
    }
    old, new = b"o" * SECTOR, b"n" * SECTOR
    every_mix = {(a, b, c) for a in (old, new) for b in (old, new) for c in (old, new)}
    assert sectors == every_mix  # among them (old, old, new), which no prefix of the write explains


def test_a_sector_may_stop_at_any_of_its_versions() -> None:
    def scenario(disk: SimDisk) -> None:
        file = durable_file(disk, data=b"0")
        for version in (b"1", b"2", b"3"):
            file.pwrite(version, 0)

    assert outcomes(scenario) == {b"0", b"1", b"2", b"3"}


def test_a_later_write_may_overtake_an_earlier_one() -> None:
    def scenario(disk: SimDisk) -> None:
        file = durable_file(disk, data=bytes(2 * SECTOR))
        file.pwrite(b"1", 0)
        file.pwrite(b"2", SECTOR)

    ends = {
        (content[0:1], content[SECTOR : SECTOR + 1]) for content in outcomes(scenario) if content
    }
    assert ends == {(b"\0", b"\0"), (b"1", b"\0"), (b"1", b"2"), (b"\0", b"2")}


def test_an_unsynced_truncation_may_come_back() -> None:
    def scenario(disk: SimDisk) -> None:
        file = durable_file(disk, data=b"abcdef")
        file.truncate(3)
        file.allocate(6)

    assert outcomes(scenario) == {b"abcdef", b"abc", b"abc\0\0\0"}


def test_a_synced_truncation_never_comes_back() -> None:
    def scenario(disk: SimDisk) -> None:
        file = durable_file(disk, data=b"abcdef")
        file.truncate(3)
        file.allocate(6)
        file.fsync()

    assert outcomes(scenario) == {b"abc\0\0\0"}


def test_open_files_end_with_the_power() -> None:
    disk = make_disk()
    file = durable_file(disk, data=b"abc")
    disk.power_cut()
    with pytest.raises(PowerCut):
        disk.exists("/d/f")
    with pytest.raises(PowerCut):
        file.pread(1, 0)
    disk.power_on()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.pread(1, 0)
    assert disk.open("/d/f").pread(3, 0) == b"abc"


def test_power_cut_reports_what_it_took() -> None:
    losses = set()
    for seed in SEEDS:
        disk = make_disk(seed)
        durable_file(disk, data=b"o" * SECTOR * 2).pwrite(b"n" * SECTOR * 2, 0)
        report = disk.power_cut()
        after = disk.read_cached("/d/f")
        assert report.bytes_lost == after.count(b"o")
        assert disk.counters.bytes_lost == report.bytes_lost
        losses.add((report.bytes_lost, report.sectors_torn))
    assert {(0, 0), (SECTOR, 1), (2 * SECTOR, 0)} <= losses


def test_page_cache_survives_the_process() -> None:
    disk = make_disk()
    file = durable_file(disk, data=b"abc")
    file.pwrite(b"X", 0)
    disk.release_locks()
    assert disk.read_cached("/d/f") == b"Xbc"
    assert disk.read_durable("/d/f") == b"abc"
    assert disk.dirty_bytes == 1


def test_the_same_seed_tears_the_same_way() -> None:
    def torn(seed: int) -> bytes:
        disk = make_disk(seed)
        durable_file(disk, data=b"o" * SECTOR * 8).pwrite(b"n" * SECTOR * 8, 0)
        disk.power_cut()
        return disk.read_cached("/d/f")

    assert [torn(seed) for seed in SEEDS] == [torn(seed) for seed in SEEDS]
    assert len({torn(seed) for seed in SEEDS}) > 10


def run_small_scenario(disk: SimDisk, done: list[str]) -> None:
    """Replace /d/f as MetadataFile does, and note every step that returned."""
    file = disk.open("/d/f.tmp", create=True)
    done.append("created")
    file.pwrite(b"new", 0)
    done.append("written")
    file.fsync()
    done.append("synced")
    disk.rename("/d/f.tmp", "/d/f")
    done.append("renamed")
    disk.fsync_dir("/d")
    done.append("durable")


@pytest.mark.parametrize("operation", range(1, 6))
def test_cut_at_strikes_inside_the_chosen_operation(operation: int) -> None:
    found = set()
    for seed in range(50):
        disk = make_disk(seed)
        durable_file(disk, data=b"old")
        done: list[str] = []
        disk.cut_at(operation)
        with pytest.raises(PowerCut):
            run_small_scenario(disk, done)
        assert len(done) == operation - 1
        restart(disk)
        found.add(disk.read_cached("/d/f"))
    assert found == ({b"old", b"new"} if operation >= 4 else {b"old"})


def test_cut_at_beyond_the_end_does_not_strike() -> None:
    disk = make_disk()
    done: list[str] = []
    disk.cut_at(6)
    run_small_scenario(disk, done)
    assert done[-1] == "durable"
    with pytest.raises(PowerCut):
        disk.makedirs("/e")


def test_cut_at_calls_the_owner_and_stays_dark() -> None:
    calls: list[str] = []
    disk = make_disk()
    disk.on_power_cut = lambda: calls.append("cut")
    file = durable_file(disk)
    disk.cut_at(1)
    with pytest.raises(PowerCut):
        file.pwrite(b"x", 0)
    assert calls == ["cut"]
    with pytest.raises(PowerCut):
        disk.listdir("/d")
    disk.power_cut()
    disk.power_on()
    assert disk.listdir("/d") == ["f"]


@pytest.mark.parametrize("operation", [0, -1])
def test_cut_at_refuses_the_past(operation: int) -> None:
    with pytest.raises(ValueError, match="count from 1"):
        make_disk().cut_at(operation)


def test_cut_at_sync_strikes_while_the_data_is_not_yet_durable() -> None:
    found = set()
    for seed in range(50):
        disk = make_disk(seed)
        file = durable_file(disk, data=b"old")
        disk.cut_at_sync(2)
        file.pwrite(b"new", 0)
        file.fsync()
        file.pwrite(b"NEW", 0)
        with pytest.raises(PowerCut):
            file.fsync()
        restart(disk)
        found.add(disk.read_cached("/d/f"))
    assert found == {b"new", b"NEW"}


def test_cut_at_sync_counts_folders_and_nothing_but_syncs() -> None:
    disk = make_disk()
    file = durable_file(disk)
    disk.cut_at_sync(1)
    file.pwrite(b"x", 0)
    disk.rename("/d/f", "/d/g")
    with pytest.raises(PowerCut):
        disk.fsync_dir("/d")


@pytest.mark.parametrize(
    ("change", "done_before"), [(1, []), (2, ["created", "written", "synced"])]
)
def test_cut_at_name_strikes_before_or_after_the_chosen_change(
    change: int, done_before: list[str]
) -> None:
    found = set()
    for seed in range(50):
        disk = make_disk(seed)
        durable_file(disk, data=b"old")
        done: list[str] = []
        disk.cut_at_name(change)
        with pytest.raises(PowerCut):
            run_small_scenario(disk, done)
        assert done == done_before
        disk.release_locks()  # the process dies, and the page cache survives
        disk.heal()
        disk.power_on()
        found.add((disk.has("/d/f.tmp"), disk.read_cached("/d/f")))
    before, after = [((False, b"old"), (True, b"old")), ((True, b"old"), (False, b"new"))][
        change - 1
    ]
    assert found == {before, after}


def test_a_cancelled_cut_never_strikes() -> None:
    disk = make_disk()
    disk.cut_at_name(1)
    disk.cut_at_sync(1)
    disk.cut_at(1)
    disk.cancel_cut()
    durable_file(disk)


@pytest.mark.parametrize("sync", [0, -1])
def test_cut_at_sync_refuses_the_past(sync: int) -> None:
    with pytest.raises(ValueError, match="count from 1"):
        make_disk().cut_at_sync(sync)


@pytest.mark.parametrize("change", [0, -1])
def test_cut_at_name_refuses_the_past(change: int) -> None:
    with pytest.raises(ValueError, match="count from 1"):
        make_disk().cut_at_name(change)
