"""Ranges of a log read from the files of a run: several files, damage, links, devices."""

from __future__ import annotations

import os
from pathlib import Path

from staticfire.harness.recording.stored_logs import LogRange
from staticfire.harness.rocketmq.observers.stored_log import CommitLogs, read_log_range, records_of
from staticfire.system_under_test.protocol.message import Message, encode_record


def record(key: str, at: int, body: bytes = b"body") -> bytes:
    message = Message(
        topic="t", body=body, properties={"KEYS": key}, physical_offset=at, queue_offset=3
    )
    return bytes(encode_record(message))


def log_file(store: Path, base: int, data: bytes, folder: str = "commitlog") -> Path:
    path = store / folder / f"{base:020d}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_a_stretch_goes_on_in_the_next_file_and_in_another_folder(tmp_path: Path) -> None:
    log_file(tmp_path, 0, b"a" * 100)
    log_file(tmp_path, 100, b"b" * 100, "commitlog-2")
    found = read_log_range(tmp_path, 90, 120)
    assert found == LogRange(90, b"a" * 10 + b"b" * 20)
    assert found.slice(95, 105) == b"aaaaabbbbb"
    assert found.slice(0, 92) == b"aa"
    assert read_log_range(tmp_path, 200, 300) is None
    assert read_log_range(tmp_path, 150, 900) == LogRange(150, b"b" * 50)


def test_a_hole_between_files_ends_the_stretch(tmp_path: Path) -> None:
    log_file(tmp_path, 0, b"a" * 50)
    log_file(tmp_path, 100, b"b" * 50)
    assert read_log_range(tmp_path, 0, 150) == LogRange(0, b"a" * 50)


def test_links_devices_and_other_names_are_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"s" * 100)
    store = tmp_path / "store"
    (store / "commitlog").mkdir(parents=True)
    (store / "commitlog" / f"{0:020d}").symlink_to(secret)
    os.mkfifo(store / "commitlog" / f"{100:020d}")
    (store / "commitlog" / "1").write_bytes(b"x" * 100)
    (store / "commitlog-2").symlink_to(tmp_path)
    assert read_log_range(store, 0, 200) is None
    assert read_log_range(store, 100, 200) is None
    assert read_log_range(tmp_path / "none", 0, 200) is None


def test_records_follow_one_another_until_there_is_none() -> None:
    one = record("p1-0", 1000)
    two = record("p1-1", 1000 + len(one))
    data = one + two + bytes(64)
    found = records_of(LogRange(1000, data), [1000, 5000])
    assert list(found) == [1000, 1000 + len(one), 1000 + len(one) + len(two)]
    assert [of.key for of in found.values()] == ["p1-0", "p1-1", None]
    assert found[1000].text == f"p1-0, {len(one)} bytes, t queue 0 offset 3"
    assert found[1000 + len(one) + len(two)].text == "zeros: no record begins here"


def test_damage_is_said_and_the_next_start_is_tried() -> None:
    one, two = record("p1-0", 0), record("p1-1", 0, b"other body")
    torn = two.replace(b"other body", b"other\0body")
    found = records_of(LogRange(0, one[:20] + torn), [0, 20])
    assert found[0].size == 0
    assert found[0].text.startswith("no record: ")
    assert found[20].text.endswith("its body does not fit its checksum")


def test_files_of_the_log_are_distinguished_by_their_path() -> None:
    logs = CommitLogs()
    assert logs.begin_of("/store/commitlog/00000000000000262144") == 262144
    assert logs.begin_of("/store/commitlog-2/00000000000000000000") == 0
    assert logs.begin_of("/store/consumequeue/t/0/00000000000000000000") is None
    assert logs.begin_of("/store/commitlog/lock") is None
