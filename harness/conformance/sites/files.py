"""Writes and removes files of a stopped node."""

from __future__ import annotations

from collections.abc import Mapping

from staticfire.system_under_test.runtime.env import Storage


def change_files(storage: Storage, files: Mapping[str, bytes | None]) -> None:
    """Write these files durably; None removes one."""
    for path, data in files.items():
        folder = path.rpartition("/")[0]
        if data is None:
            storage.unlink(path)
        else:
            storage.makedirs(folder)
            file = storage.open(path, create=True)
            file.truncate(0)
            file.pwrite(data, 0)
            file.fsync()
            file.close()
        storage.fsync_dir(folder)
