"""A metadata file holds its last saved value, or the one before, whatever happens in between."""

from __future__ import annotations

from random import Random

import pytest

from staticfire.harness.simulation.disk.disk import PowerCut, SimDisk
from staticfire.system_under_test.store.errors import StoreError
from staticfire.system_under_test.store.metadata_file import MetadataFile

PATH = "/store/config/topics.json"


def make_disk(seed: object = 0) -> SimDisk:
    return SimDisk(random=Random(f"metadata {seed}"), now_ns=lambda: 0, charge=lambda ns: None)


def write(disk: SimDisk, path: str, data: bytes) -> None:
    file = disk.open(path, create=True)
    file.truncate(0)
    file.pwrite(data, 0)
    file.close()


def test_nothing_saved_yet() -> None:
    assert MetadataFile(make_disk(), PATH).load() is None


def test_saves_replace_each_other() -> None:
    file = MetadataFile(make_disk(), PATH)
    file.save({"offset": 1, "name": "über"})
    file.save({"offset": 2})
    assert file.load() == {"offset": 2}


def test_java_files_are_read() -> None:
    disk = make_disk()
    disk.makedirs("/store/config")
    write(disk, PATH, b'{\n\t"offsetTable":{\n\t\t"SpecT@g1":{0:1,1:7\n\t\t}\n\t}\n}')
    assert MetadataFile(disk, PATH).load() == {"offsetTable": {"SpecT@g1": {"0": 1, "1": 7}}}


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"\xff\xfe"])
def test_the_backup_helps_once(damage: bytes) -> None:
    disk = make_disk()
    file = MetadataFile(disk, PATH)
    file.save({"version": 1})
    file.save({"version": 2})
    write(disk, PATH, damage)
    assert file.load() == {"version": 1}
    write(disk, f"{PATH}.bak", damage)
    with pytest.raises(StoreError, match=r"no usable metadata: .*topics.json: .*topics.json.bak: "):
        file.load()


def test_a_full_disk_keeps_the_last_value() -> None:
    disk = make_disk()
    file = MetadataFile(disk, PATH)
    file.save({"version": 1})
    disk.fill(free_bytes=0)
    with pytest.raises(OSError, match="No space"):
        file.save({"version": 2, "large": "x" * 10_000})
    assert file.load() == {"version": 1}
    disk.free()
    file.save({"version": 3})
    assert file.load() == {"version": 3}


@pytest.mark.parametrize("seed", range(100))
def test_power_cut_at_any_operation(seed: int) -> None:
    disk = make_disk(seed)
    file = MetadataFile(disk, PATH)
    saved, attempted = -1, -1
    disk.cut_at(1 + seed % 40)
    try:
        for version in range(8):
            attempted = version
            file.save({"version": version, "size": "x" * (version * 300)})
            saved = version
    except PowerCut:
        pass
    disk.power_cut()
    disk.power_on()
    found = MetadataFile(disk, PATH).load()
    version = -1 if found is None else found["version"]
    assert version in (saved, attempted)
    file.save({"version": 99})
    disk.power_cut()
    disk.power_on()
    assert file.load() == {"version": 99}
