"""Reads a range of a commit log from the files that a run kept of a node. It trusts no content of the files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from staticfire.faults.linux.on_node import bit_rot
from staticfire.harness.recording.stored_logs import LogRange, StoredRecord
from staticfire.system_under_test.protocol.message import (
    Message,
    RecordError,
    body_checksum,
    decode_record,
)

FOLDER = "commitlog"  # with --multi-path there are further folders, with a suffix
FILES_MAX = 10_000  # files of one log
NAME_DIGITS = 20


def read_log_range(store: Path, begin: int, end: int) -> LogRange | None:
    """Read bytes of the log in a node's store; None if no file has the first one. Raises OSError.

    A link is not followed, and a device is not read.
    """
    files = _log_files(store)
    data = b""
    for base in sorted(files):
        at = begin + len(data)
        if base <= at < end:
            data += _read(files[base], at - base, end - at)
    return LogRange(begin, data) if data else None


def records_of(log_range: LogRange, starts: Iterable[int]) -> dict[int, StoredRecord]:
    """Return records by physical offset: those that follow one another from each start on."""
    found: dict[int, StoredRecord] = {}
    for start in sorted(starts):
        at = start
        while log_range.begin <= at < log_range.end and at not in found:
            found[at] = _record(log_range.data, at - log_range.begin)
            if not found[at].size:
                break
            at += found[at].size
    return found


def _record(data: bytes, position: int) -> StoredRecord:
    if not any(data[position : position + 8]):
        return StoredRecord(0, None, "zeros: no record begins here")
    try:
        message = decode_record(data, position)
    except RecordError as error:
        return StoredRecord(0, None, f"no record: {error}")
    key = message.properties.get("KEYS")
    return StoredRecord(message.size_bytes, key, _text(message, key))


def _text(message: Message, key: str | None) -> str:
    whole = message.body_crc == body_checksum(message.body)
    checksum = "" if whole else ", its body does not fit its checksum"
    position = f"{message.topic} queue {message.queue_id} offset {message.queue_offset}"
    return f"{key or 'no key'}, {message.size_bytes} bytes, {position}{checksum}"


def _log_files(store: Path) -> Mapping[int, Path]:
    """Return files of the log by the physical offset of their first byte."""
    files: dict[int, Path] = {}
    for folder in sorted(store.glob(f"{FOLDER}*")):
        if folder.is_symlink() or not folder.is_dir():
            continue
        for entry in os.scandir(folder):
            if len(entry.name) == NAME_DIGITS and entry.name.isdecimal() and len(files) < FILES_MAX:
                files.setdefault(int(entry.name), Path(entry.path))
    return files


def _read(path: Path, offset: int, size: int) -> bytes:
    """Return at most `size` bytes of a plain file; nothing of a device, a link or a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        return os.pread(descriptor, size, offset)
    finally:
        os.close(descriptor)


class CommitLogs:
    """Implements `StoredLogs` for stores of RocketMQ."""

    read = staticmethod(read_log_range)
    records = staticmethod(records_of)
    bodies = staticmethod(bit_rot.stored_records)

    def begin_of(self, path: str) -> int | None:
        folder, _, name = path.rpartition("/")
        is_log = folder.rpartition("/")[2].startswith(FOLDER) and name.isdecimal()
        return int(name) if is_log else None

    def marks(self, key: str) -> Sequence[bytes]:
        """Return the key as the load's bodies begin, and as the property KEYS of a message with a compressed body."""
        return (f"{key} ".encode(), f"KEYS\x01{key}\x02".encode())
