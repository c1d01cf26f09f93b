"""Names after a power cut: a prefix of the journal, and names made durable by fsync_dir."""

from __future__ import annotations

from collections.abc import Callable

from staticfire.harness.simulation.disk.disk import SimDisk
from tests.support.disks import durable_file, make_disk, restart


def survivors(scenario: Callable[[SimDisk], None]) -> set[tuple[str, ...]]:
    """The sets of file paths found after a power cut at the end of `scenario`, over 100 seeds."""
    found = set()
    for seed in range(100):
        disk = make_disk(seed)
        scenario(disk)
        restart(disk)
        found.add(tuple(disk.snapshot()))
    return found


def touch(disk: SimDisk, *paths: str) -> None:
    for path in paths:
        disk.open(path, create=True)


def test_unsynced_names_survive_as_a_prefix() -> None:
    assert survivors(lambda disk: touch(disk, "/d/1", "/d/2", "/d/3")) == {
        (),
        ("/d/1",),
        ("/d/1", "/d/2"),
        ("/d/1", "/d/2", "/d/3"),
    }


def test_fsync_dir_covers_its_own_folder_only() -> None:
    def scenario(disk: SimDisk) -> None:
        disk.makedirs("/d/e")
        disk.fsync_dir("/d")
        touch(disk, "/d/1", "/d/e/2")
        disk.fsync_dir("/d/e")

    assert survivors(scenario) == {("/d/e/2",), ("/d/1", "/d/e/2")}


def test_a_folder_without_a_durable_name_takes_its_files_along() -> None:
    def scenario(disk: SimDisk) -> None:
        disk.makedirs("/d/e")
        durable_file(disk, "/d/e/f", b"abc")

    assert survivors(scenario) == {(), ("/d/e/f",)}


def test_an_unsynced_unlink_may_come_back() -> None:
    def scenario(disk: SimDisk) -> None:
        durable_file(disk, "/d/f", b"abc")
        disk.unlink("/d/f")

    assert survivors(scenario) == {(), ("/d/f",)}


def test_a_synced_unlink_never_comes_back() -> None:
    def scenario(disk: SimDisk) -> None:
        durable_file(disk, "/d/f", b"abc")
        disk.unlink("/d/f")
        disk.fsync_dir("/d")

    assert survivors(scenario) == {()}


def test_rename_is_atomic() -> None:
    for seed in range(100):
        disk = make_disk(seed)
        durable_file(disk, "/d/f", b"old")
        durable_file(disk, "/d/f.tmp", b"new")
        disk.rename("/d/f.tmp", "/d/f")
        restart(disk)
        after = disk.snapshot()
        assert after in ({"/d/f": b"old", "/d/f.tmp": b"new"}, {"/d/f": b"new"})


def test_rename_between_folders_is_durable_in_both_or_none() -> None:
    def scenario(disk: SimDisk) -> None:
        disk.makedirs("/d/e")
        disk.fsync_dir("/d")
        touch(disk, "/d/1")
        disk.rename("/d/1", "/d/e/2")
        disk.fsync_dir("/d/e")

    assert survivors(scenario) == {("/d/e/2",)}


def test_a_removed_folder_does_not_return_its_files_to_a_new_one() -> None:
    def scenario(disk: SimDisk) -> None:
        disk.makedirs("/d/e")
        touch(disk, "/d/e/f")
        disk.unlink("/d/e/f")
        disk.rmdir("/d/e")
        disk.fsync_dir("/d")
        disk.makedirs("/d/e")
        disk.fsync_dir("/d")

    assert survivors(scenario) == {()}


def test_is_durable_asks_for_every_name_up_to_the_root() -> None:
    disk = make_disk()
    disk.makedirs("/d/e")
    disk.open("/d/e/f", create=True)
    assert not disk.is_durable("/d/e/f")
    disk.fsync_dir("/d/e")
    assert not disk.is_durable("/d/e/f")
    disk.fsync_dir("/d")
    assert disk.is_durable("/d/e/f")
    disk.rename("/d/e/f", "/d/e/g")
    assert not disk.is_durable("/d/e/g")
    assert not disk.is_durable("/d/e/f")


def test_listdir_has_no_order_to_rely_on() -> None:
    disk = make_disk()
    touch(disk, "/d/1", "/d/2", "/d/3")
    assert {tuple(disk.listdir("/d")) for _ in range(50)} == {
        ("1", "2", "3"),
        ("2", "3", "1"),
        ("3", "1", "2"),
    }


def test_power_cut_counts_lost_entries() -> None:
    lost = set()
    for seed in range(50):
        disk = make_disk(seed)
        touch(disk, "/d/1", "/d/2")
        report = disk.power_cut()
        assert report.entries_lost == 2 - len(disk.snapshot())
        lost.add(disk.counters.entries_lost)
    assert lost == {0, 1, 2}
