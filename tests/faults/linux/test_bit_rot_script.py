"""The script finds records in the bytes of a log, changes a bit of one body, and says which that was."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from staticfire.faults.linux.on_node.bit_rot import changed, main, stored_records
from tests.system_under_test.store.store_on_disk import LOG_FOLDER, StoreOnDisk, make_message


@pytest.fixture
def log() -> bytes:
    store = StoreOnDisk(log_file_size=4096)
    store.open()
    store.put_visible(make_message(b"first"), make_message(b"second, longer"))
    return store.disk.read_cached(f"{LOG_FOLDER}/{0:020d}")


def test_each_record_and_its_body(log: bytes) -> None:
    found = list(stored_records(log))
    assert [log[record.body_start : record.body_end] for record in found] == [
        b"first",
        b"second, longer",
    ]
    assert all(record.is_sound(log[record.start : record.end]) for record in found)


def test_a_changed_body_is_not_sound(log: bytes) -> None:
    record = next(stored_records(log))
    rotten = bytearray(log[record.start : record.end])
    rotten[record.body_start] ^= 4
    assert not record.is_sound(bytes(rotten))


def test_what_is_no_record_ends_the_search(log: bytes) -> None:
    assert list(stored_records(b"")) == []
    assert list(stored_records(bytes(100))) == []
    assert len(list(stored_records(log[: next(stored_records(log)).body_end]))) == 0


def test_a_record_is_reported_by_its_key_and_its_position() -> None:
    store = StoreOnDisk(log_file_size=4096)
    store.open()
    results = [
        store.put(make_message(b"x", KEYS="p1-7", MY_KEYS="no")),
        store.put(make_message(b"y")),
    ]
    store.flush()
    log = store.disk.read_cached(f"{LOG_FOLDER}/{0:020d}")
    assert [record.facts(log[record.start : record.end]) for record in stored_records(log)] == [
        {"key": key, "start": result.physical_offset, "end": result.end_offset}
        for key, result in zip(("p1-7", ""), results, strict=True)
    ]


@pytest.mark.parametrize(("share", "number"), [(0.0, 0), (0.49, 0), (0.5, 1), (0.99, 1)])
def test_one_bit_of_one_body_changes(log: bytes, tmp_path: Path, share: float, number: int) -> None:
    file = tmp_path / "store" / "commitlog" / f"{0:020d}"
    file.parent.mkdir(parents=True)
    file.write_bytes(log)
    (tmp_path / "store" / "checkpoint").write_bytes(log)
    record = list(stored_records(log))[number]
    evidence = changed(str(tmp_path), share)
    assert evidence == {
        "bitten": True,
        "path": str(file),
        "records": [record.facts(log[record.start : record.end])],
    }
    differing = [at for at, byte in enumerate(file.read_bytes()) if byte != log[at]]
    assert len(differing) == 1
    assert record.body_start <= differing[0] < record.body_end
    assert (file.read_bytes()[differing[0]] ^ log[differing[0]]).bit_count() == 1
    assert (tmp_path / "store" / "checkpoint").read_bytes() == log


def test_without_a_record_nothing_is_bitten(tmp_path: Path) -> None:
    assert changed(str(tmp_path), 0.5) == {"bitten": False}


@pytest.mark.parametrize(("fails_from", "bitten"), [(1, False), (2, True)])
def test_a_disk_that_fails_meanwhile(
    log: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fails_from: int,
    bitten: bool,
) -> None:
    """What cannot be made durable first is left alone; what has changed in the page cache is said."""
    file = tmp_path / "store" / "commitlog" / f"{0:020d}"
    file.parent.mkdir(parents=True)
    file.write_bytes(log)
    calls = iter(range(1, 9))

    def fsync(_opened: int) -> None:
        if next(calls) >= fails_from:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    main([str(tmp_path), "0.5"])
    reported = json.loads(capsys.readouterr().out)
    assert (reported["bitten"], "error" in reported, "records" in reported) == (
        bitten,
        not bitten,
        bitten,
    )
    assert (file.read_bytes() != log) is bitten
