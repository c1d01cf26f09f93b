"""Mutants of RMQ-STO: what a case finds on the disk is changed on its way."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from staticfire.harness.conformance.bench import Bench
from staticfire.system_under_test.store.index import index_file
from staticfire.system_under_test.store.index.index_layout import INDEX_ENTRY, SECONDS_MAX
from tests.conformance.mutants.mutant import system

Files = dict[str, bytes]


def alter_files(
    patch: pytest.MonkeyPatch, alter: Callable[[str, bytes], tuple[str, bytes] | None]
) -> None:
    """Change path or data of every file; None removes it."""
    read = Bench.read_store

    async def altered(self: Bench, address: str) -> Mapping[str, bytes]:
        found = await read(self, address)
        return dict(one for path, data in found.items() if (one := alter(path, data)) is not None)

    patch.setattr(Bench, "read_store", altered)


@system("RMQ-STO-01")
def checksums_are_missing(patch: pytest.MonkeyPatch) -> None:
    def zero(path: str, data: bytes) -> tuple[str, bytes]:
        magic = b"\xda\xa3\x20\xa7"
        parts = data.split(magic) if "/commitlog/" in path else [data]
        return path, magic.join([parts[0], *(bytes(4) + part[4:] for part in parts[1:])])

    alter_files(patch, zero)


@system("RMQ-STO-02")
def blanks_have_no_magic(patch: pytest.MonkeyPatch) -> None:
    alter_files(patch, lambda path, data: (path, data.replace(b"\xcb\xd4\x31\x94", bytes(4))))


@system("RMQ-STO-03")
def names_are_short(patch: pytest.MonkeyPatch) -> None:
    alter_files(patch, lambda path, data: (path.replace("/00000000000", "/"), data))


@system("RMQ-STO-04")
def tags_are_not_hashed(patch: pytest.MonkeyPatch) -> None:
    def without(path: str, data: bytes) -> tuple[str, bytes]:
        if "/consumequeue/" not in path:
            return path, data
        entries = [data[at : at + 20] for at in range(0, len(data), 20)]
        return path, b"".join(entry[:12] + bytes(8) for entry in entries)

    alter_files(patch, without)


@system("RMQ-STO-06")
def there_is_no_index(patch: pytest.MonkeyPatch) -> None:
    alter_files(patch, lambda path, data: None if "/index/" in path else (path, data))


@system("RMQ-STO-07")
def abort_stays(patch: pytest.MonkeyPatch) -> None:
    alter_files(patch, lambda path, data: (path.replace("checkpoint", "abort"), data))


@system("RMQ-STO-08")
def offsets_are_not_written(patch: pytest.MonkeyPatch) -> None:
    def emptied(path: str, data: bytes) -> tuple[str, bytes]:
        return path, b'{"offsetTable":{}}' if path.endswith("consumerOffset.json") else data

    alter_files(patch, emptied)


@system("RMQ-STO-08")
def filters_are_not_written(patch: pytest.MonkeyPatch) -> None:
    def kept(path: str, data: bytes) -> tuple[str, bytes]:
        is_filters = path.endswith("consumerFilter.json")
        return path, b'{"filterDataByTopic":{}}' if is_filters else data

    alter_files(patch, kept)


class _MuchLater:
    """Entries of an index file, all of them stored decades after the first."""

    size = INDEX_ENTRY.size

    @staticmethod
    def pack(key_hash: int, position: int, _seconds: int, previous: int) -> bytes:
        return INDEX_ENTRY.pack(key_hash, position, SECONDS_MAX, previous)


@system("RMQ-STO-06")
def entries_without_times(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(index_file, "INDEX_ENTRY", _MuchLater)
