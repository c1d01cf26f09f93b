"""The store of a real RocketMQ 4.9.8 broker: every message of its ledger is where the broker said, and stays there."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from staticfire.system_under_test.protocol.json_dialect import loads
from staticfire.system_under_test.protocol.json_pretty import dumps_pretty
from staticfire.system_under_test.protocol.message import MAGIC_MESSAGE, Message, decode_record
from staticfire.system_under_test.runtime.real_env import RealStorage
from staticfire.system_under_test.store.appending.config import StoreConfig
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.index.key_search import KeyQuery
from staticfire.system_under_test.store.metadata_file import MetadataFile
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
            # Python 3.11.4 and later have filters; 3.14 and later use this one by themselves.
            archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
            archive.extractall(folder)
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
        index_slots=500,
        index_numbers=2_000,
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


# By key and by id


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clean", "killed"])
@pytest.mark.parametrize("lost", ["", "index", QUEUE_FOLDER])
def test_every_message_of_the_ledger_is_found_by_key_and_by_id(
    unpacked: Path, tmp_path: Path, name: str, lost: str
) -> None:
    """Also after an operator has removed a folder."""
    store, root = copy_store(unpacked, name, tmp_path)
    if lost:
        shutil.rmtree(root / lost)
    store.open()
    for sent in ledger():
        record = store.look_up(sent.physical_offset)
        assert record is not None
        for key in (sent.unique_key, f"key-{sent.number}"):
            assert find(store, "Golden", key) == [record]
        if sent.number % 5 == 0:
            assert record in find(store, "Golden", f"second-{sent.number}")
    store.close()


def find(store: MessageStore, topic: str, key: str) -> list[bytes]:
    return store.find_by_key(KeyQuery(topic, key, 64, 0, (1 << 63) - 1)).records


def other_lines() -> Iterator[tuple[str, list[str]]]:
    """Kind, and the unique keys, of the lines that are no plain sends."""
    for line in (GOLDEN / "ledger.txt").read_text().splitlines():
        word, *fields = line.split()
        if word in ("delay", "batch", "compressed", "transaction"):
            yield word, [key for field in fields if len(field) >= 32 for key in field.split(",")]


@pytest.mark.parametrize("name", ["clean", "killed"])
def test_delayed_batched_and_transactional_messages_are_found_by_key(
    unpacked: Path, tmp_path: Path, name: str
) -> None:
    store, _ = copy_store(unpacked, name, tmp_path)
    store.open()
    topics = ("Golden", "GoldenTx", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC")
    count = 0
    for _, keys in other_lines():
        for key in (key for key in keys if len(key) == 32 and "7F000001" not in key[:8]):
            assert any(find(store, topic, key) for topic in topics), key
            count += 1
    assert count == 6 + 5 + 1 + 4
    store.close()


# Written by us from the same input


def written_by_us(golden: Path, root: Path) -> None:
    """Put the records of a golden log again, each when it was stored there, and close the store."""
    clock = ScriptedClock()
    config = StoreConfig(
        root=str(root),
        commit_log_file_size=65_536,
        consume_queue_file_size=2_000,
        index_slots=500,
        index_numbers=2_000,
    )
    store = MessageStore(RealStorage(), clock, SilentLog(), config)
    store.open()
    for message in golden_messages(golden):
        clock.now_ms = message.store_timestamp_ms
        assert store.put(message).physical_offset == message.physical_offset
    store.close()


def golden_messages(golden: Path) -> Iterator[Message]:
    for path in sorted((golden / "commitlog").iterdir()):
        data = path.read_bytes()
        position = 0
        while (
            int.from_bytes(data[position + 4 : position + 8], "big", signed=True) == MAGIC_MESSAGE
        ):
            message = decode_record(data, position)
            raw = data[position : position + message.size_bytes]
            if raw.count(b"WAIT\x01true") == 2:  # of a message and of its batch
                message.property_text = property_text(raw)
            position += message.size_bytes
            yield message


def property_text(record: bytes) -> str:
    """What stands behind the two bytes of the length, at the end of the record."""
    return record[record.rindex(b"Golden") + len(b"Golden") + 2 :].decode()


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.read_bytes().strip(b"\0")
    }


@pytest.mark.parametrize("name", ["clean", "killed"])
def test_our_store_of_the_same_messages_equals_the_broker_s_byte_for_byte(
    unpacked: Path, tmp_path: Path, name: str
) -> None:
    golden, ours = unpacked / name, tmp_path / "ours"
    written_by_us(golden, ours)
    for folder in ("commitlog", QUEUE_FOLDER):
        assert contents(ours / folder) == contents(golden / folder), folder
    (theirs,), (our_index,) = contents(golden / "index").values(), contents(ours / "index").values()
    assert our_index == theirs
    assert (ours / "lock").read_bytes() == (golden / "lock").read_bytes()
    assert len((ours / "checkpoint").read_bytes()) == len((golden / "checkpoint").read_bytes())
    assert not (ours / "checkpoint").read_bytes()[24:].strip(b"\0")


def test_a_rebuilt_index_equals_the_broker_s_byte_for_byte(unpacked: Path, tmp_path: Path) -> None:
    """Each is named after the moment it was made; nothing else may differ."""
    for lost in (False, True):
        store, root = copy_store(unpacked, "killed", tmp_path / str(lost))
        before = list(contents(root / "index").values())
        if lost:
            shutil.rmtree(root / "index")
        store.open()
        store.close()
        assert list(contents(root / "index").values()) == before


@pytest.mark.parametrize(
    "file", ["topics", "subscriptionGroup", "consumerOffset", "delayOffset", "consumerFilter"]
)
def test_metadata_is_written_as_the_broker_wrote_it(
    unpacked: Path, tmp_path: Path, file: str
) -> None:
    """But for the order of names, which is that of Java's hashes there."""
    theirs = (unpacked / f"clean/config/{file}.json").read_bytes()
    assert dumps_pretty(loads(theirs)) == theirs
    ours = MetadataFile(RealStorage(), str(tmp_path / f"{file}.json"))
    ours.save(loads(theirs))
    written = (tmp_path / f"{file}.json").read_bytes()
    assert (len(written), loads(written)) == (len(theirs), loads(theirs))
