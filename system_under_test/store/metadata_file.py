"""One JSON file that survives a power cut at any moment (RocketMQ, MixAll.string2File, without its hole).

RocketMQ copies the old content to `.bak`, deletes the file and renames `.tmp`, without any fsync: a power cut leaves
empty or missing metadata. Here the new content is durable before a name points to it.
"""

from __future__ import annotations

import json
from typing import Any

from system_under_test.env import Storage
from system_under_test.protocol.json_dialect import loads
from system_under_test.store.errors import StoreError
from system_under_test.store.folders import make_durable_folder, parent_folder

__all__ = ["MetadataFile"]


class MetadataFile:
    """A JSON object at `path`; `path`.bak holds the object before the last save."""

    __slots__ = ("_storage", "path")

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self.path = path

    def load(self) -> dict[str, Any] | None:
        """Return the object, or that of the backup; None if neither file exists.

        Raises:
            StoreError: there is a file, but neither it nor the backup holds a JSON object.
        """
        problems = []
        for path in (self.path, f"{self.path}.bak"):
            if not self._storage.exists(path):
                continue
            try:
                return self._parse(path)
            except (ValueError, OSError) as error:
                problems.append(f"{path}: {error}")
        if problems:
            raise StoreError(f"no usable metadata: {'; '.join(problems)}")
        return None

    def _parse(self, path: str) -> dict[str, Any]:
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
        folder = parent_folder(self.path)
        make_durable_folder(self._storage, folder)
        temporary = f"{self.path}.tmp"
        self._write(temporary, json.dumps(value, indent="\t", sort_keys=True).encode())
        # Between the renames only the backup exists: load() takes it, and it is the state before this save.
        if self._storage.exists(self.path):
            self._storage.rename(self.path, f"{self.path}.bak")
        self._storage.rename(temporary, self.path)
        self._storage.fsync_dir(folder)

    def _write(self, path: str, data: bytes) -> None:
        file = self._storage.open(path, create=True)
        try:
            file.truncate(0)
            file.pwrite(data, 0)
            file.fsync()
        finally:
            file.close()
