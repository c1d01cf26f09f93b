"""The store of a real RocketMQ 4.9.8 broker: every message of its ledger is where the broker said, and stays there."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from system_under_test.protocol.message import decode_record
from system_under_test.real_env import RealStorage
from system_under_test.store.message_store import MessageStore, MetadataFile, StoreConfig
from tests.system_under_test.store.store_on_disk import ScriptedClock, SilentLog

GOLDEN = Path(__file__).parents[2] / "data" / "golden-store"
QUEUE_FOLDER = "consumequeue"


class Sent(NamedTuple):
    """One line of the ledger: `send i STATUS msgId offsetMsgId queueId queueOffset`."""

    number: int
    unique_key: str
    physical_offset: int
    queue_id: int
    queue_offset: int

    @property
    def body(self) -> bytes:
        return bytes([ord("a") + self.number % 26]) * (20 + (self.number * 37) % 900)


def ledger() -> Iterator[Sent]:
    for line in (GOLDEN / "ledger.txt").read_text().splitlines():
        word, *fields = line.split()
        if word == "send":
            number, status, unique_key, offset_id, queue_id, queue_offset = fields
            assert status == "SEND_OK"
            offset = int(offset_id[-16:], 16)
            yield Sent(int(number), unique_key, offset, int(queue_id), int(queue_offset))


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    for name in ("clean", "killed"):
        with tarfile.open(GOLDEN / f"store-{name}.tar.xz") as archive:
            archive.extractall(folder, filter="data")
    return folder


def copy_store(unpacked: Path, name: str, tmp_path: Path) -> tuple[MessageStore, Path]:
    root = tmp_path / name
    shutil.copytree(unpacked / name, root)
    return make_store(root), root


def make_store(root: Path) -> MessageStore:
    config = StoreConfig(
        root=str(root),
        commit_log_file_size=65_536,
        consume_queue_file_size=2_000,
        buffered=True,
    )
    return MessageStore(RealStorage(), ScriptedClock(), SilentLog(), config)


def queue_files(root: Path) -> dict[str, bytes]:
    folder = root / QUEUE_FOLDER
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize(("name", "clean"), [("clean", True), ("killed", False)])
def test_every_message_of_the_ledger(
    unpacked: Path, tmp_path: Path, name: str, clean: bool
) -> None:
    store, _ = copy_store(unpacked, name, tmp_path)
    report = store.open()
    assert (report.clean, report.cut_bytes) == (clean, 0)
    count = 0
    for sent in ledger():
        (record,) = store.get("Golden", sent.queue_id, sent.queue_offset, 1).records
        message = decode_record(record, check_crc=True)
        assert message.physical_offset == sent.physical_offset
        assert message.body == sent.body
        assert message.properties["UNIQ_KEY"] == sent.unique_key
        count += 1
    assert count > 100
    store.close()


@pytest.mark.parametrize("name", ["clean", "killed"])
def test_recovery_writes_the_entries_that_the_broker_wrote(
    unpacked: Path, tmp_path: Path, name: str
) -> None:
    """Delayed messages included: their entries hold the delivery time."""
    store, root = copy_store(unpacked, name, tmp_path)
    before = queue_files(root)
    store.open()
    store.close()
    assert queue_files(root) == before


def test_lost_queues_are_rebuilt_as_the_broker_built_them(unpacked: Path, tmp_path: Path) -> None:
    store, root = copy_store(unpacked, "killed", tmp_path)
    before = queue_files(root)
    shutil.rmtree(root / QUEUE_FOLDER)
    store.open()
    store.close()
    assert queue_files(root) == before


def test_the_store_goes_on(unpacked: Path, tmp_path: Path) -> None:
    store, root = copy_store(unpacked, "killed", tmp_path)
    store.open()
    before = store.end_offset
    record = store.look_up(0)
    assert record is not None
    result = store.put(decode_record(record))
    assert result.physical_offset == before
    store.close()
    store = make_store(root)
    report = store.open()
    assert (report.clean, report.end_offset) == (True, result.end_offset)
    store.close()


def test_metadata_of_the_broker(unpacked: Path) -> None:
    offsets = MetadataFile(RealStorage(), str(unpacked / "clean/config/consumerOffset.json")).load()
    assert offsets is not None
    assert offsets["offsetTable"]["Golden@CID_golden"] == {"0": 30, "1": 36, "2": 31, "3": 33}
