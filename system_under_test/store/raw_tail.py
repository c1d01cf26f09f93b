"""Checks replicated bytes before they are appended: a replica stores whole, sound records and the start of the next."""

from __future__ import annotations

from system_under_test.store.errors import RecordInvalid
from system_under_test.store.queue_table import is_topic_name
from system_under_test.store.record_scan import RecordScanner, ScanEnd, ScannedRecord

__all__ = ["RawTail"]


class RawTail:
    """The bytes of the last record in the log, as long as it has not arrived in full."""

    __slots__ = ("_scanner", "partial")

    def __init__(self, scanner: RecordScanner) -> None:
        self._scanner = scanner
        self.partial = b""

    def check(self, offset: int, data: bytes) -> tuple[list[ScannedRecord], bytes]:
        """The records that `data`, meant for `offset`, completes, and the new partial one. Raises RecordInvalid."""
        start = offset - len(self.partial)
        joined = self.partial + data
        records: list[ScannedRecord] = []
        consumed, reason = self._scanner.scan(joined, start, records.append)
        if reason is ScanEnd.BAD:
            raise RecordInvalid(f"the bytes for {start + consumed} are no record of that offset")
        for record in records:
            if not is_topic_name(record.topic.decode("utf-8", "replace")):
                raise RecordInvalid(f"the record for {record.physical_offset} has no valid topic")
        return records, joined[consumed:]
