"""One JSON file that survives a power cut at any moment (RocketMQ, MixAll.string2File, which does not).

RocketMQ copies the old content to `.bak`, deletes the file and renames `.tmp`, without any fsync: a power cut leaves
empty or missing metadata. Here the new content is durable before a name points to it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from staticfire.system_under_test.protocol.json_dialect import loads
from staticfire.system_under_test.protocol.json_pretty import dumps_pretty
from staticfire.system_under_test.runtime.env import Storage
from staticfire.system_under_test.store.errors import StoreError
from staticfire.system_under_test.store.folders import make_durable_folder, parent_folder


class MetadataFile:
    """A JSON object at `path`; `path`.bak holds the object before the last save."""

    __slots__ = ("_storage", "path")

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self.path = path

    def load(self) -> dict[str, Any] | None:
        """Return the object, or that of the backup; None if neither file exists.

        Raises StoreError: there is a file, but neither it nor the backup holds a JSON object.
        """
        problems = []
        for path in (self.path, f"{self.path}.bak"):
            try:
                if self._storage.exists(path):
                    return self._parse(path)
            except (ValueError, OSError) as error:
                problems.append(f"{path}: {error}")
        if problems:
            raise StoreError(f"no usable metadata: {'; '.join(problems)}")
        return None

    def _parse(self, path: str) -> dict[str, object]:
        file = self._storage.open(path)
        try:
            text = file.pread(file.size(), 0).decode()
        finally:
            file.close()
        value = loads(text)
        if not isinstance(value, dict):
            raise ValueError(f"holds a {type(value).__name__}; a JSON object is needed")  # noqa: TRY004
        return value

    def save(self, value: dict[str, Any]) -> None:
        """Replace the object durably. On OSError the file or its backup still holds the last one."""
        _replace_durably(self._storage, self.path, _written(value))


class UnsafeMetadataFile(MetadataFile):
    """Saves as RocketMQ does (ConfigManager, MixAll.string2File): no fsync, and write errors are ignored."""

    __slots__ = ()

    def load(self) -> dict[str, Any] | None:
        """Like MetadataFile, but treats empty files as missing."""
        for path in (self.path, f"{self.path}.bak"):
            if self._storage.exists(path) and not self._is_empty(path):
                return super().load()
        return None

    def _is_empty(self, path: str) -> bool:
        file = self._storage.open(path)
        try:
            return file.size() == 0
        finally:
            file.close()

    def save(self, value: dict[str, Any]) -> None:
        """Try to replace the object; ignores errors."""
        with suppress(OSError):
            self._replace(_written(value))

    def _replace(self, data: bytes) -> None:
        storage, path = self._storage, self.path
        storage.makedirs(parent_folder(path))
        _write(storage, f"{path}.tmp", data)
        if storage.exists(path):
            file = storage.open(path)
            try:
                _write(storage, f"{path}.bak", file.pread(file.size(), 0))
            finally:
                file.close()
            storage.unlink(path)
        storage.rename(f"{path}.tmp", path)


def _replace_durably(storage: Storage, path: str, data: bytes) -> None:
    """Write `data` to the file, and its old content to `path`.bak. On OSError one of the two holds the old content."""
    folder = parent_folder(path)
    make_durable_folder(storage, folder)
    temporary = f"{path}.tmp"
    _write(storage, temporary, data, fsync=True)
    # Between the renames only the backup exists: load() takes it, and it is the state before this save.
    if storage.exists(path):
        storage.rename(path, f"{path}.bak")
    storage.rename(temporary, path)
    storage.fsync_dir(folder)


def replace_atomically(storage: Storage, path: str, data: bytes) -> None:
    """Write `data` to the file: at every moment it holds the old or the new content. For files without a backup."""
    folder = parent_folder(path)
    make_durable_folder(storage, folder)
    _write(storage, f"{path}.tmp", data, fsync=True)
    storage.rename(f"{path}.tmp", path)
    storage.fsync_dir(folder)


def _written(value: dict[str, object]) -> bytes:
    return dumps_pretty(_sorted(value))


def _sorted(value: object) -> object:
    """`value` with sorted keys, numbers by value, so that equal content gives equal text (RocketMQ: hash order)."""
    if not isinstance(value, dict):
        return value
    keys = sorted(value, key=lambda key: (int(key) if str(key).isdecimal() else -1, str(key)))
    return {key: _sorted(value[key]) for key in keys}


def _write(storage: Storage, path: str, data: bytes, *, fsync: bool = False) -> None:
    file = storage.open(path, create=True)
    try:
        file.truncate(0)
        file.pwrite(data, 0)
        if fsync:
            file.fsync()
    finally:
        file.close()
