"""The files `lock` and `abort`: whether a process has the store open, and whether the last one closed it properly.

A store whose commit log has folders of its own locks each of them, too, by a file beside it: two stores with different
roots could be configured to keep their logs in the same folder.
"""

from __future__ import annotations

from collections.abc import Sequence

from staticfire.system_under_test.runtime.env import File, Storage
from staticfire.system_under_test.store.errors import StoreLocked
from staticfire.system_under_test.store.folders import parent_folder
from staticfire.system_under_test.store.log_folders import default_log_folder


class LockAndAbortFiles:
    """`abort` exists from before the first change of a store until after the last one is durable."""

    __slots__ = ("_abort_path", "_lock_files", "_root", "_storage")

    def __init__(self, storage: Storage, root: str) -> None:
        self._storage = storage
        self._root = root
        self._abort_path = f"{root}/abort"
        self._lock_files: list[File] = []

    @property
    def is_set(self) -> bool:
        return self._storage.exists(self._abort_path)

    def lock(self) -> None:
        """Raises StoreLocked if another process has the store open, a RocketMQ written in Java included."""
        self._lock(f"{self._root}/lock", f"store {self._root}")

    def lock_log_folders(self, folders: Sequence[str]) -> None:
        """Raises StoreLocked if one of `folders`, which exist, holds the log of another store that is open."""
        for folder in folders:
            name = f"commit log folder {folder}"
            self._lock(f"{folder}.lock", name)
            other_root = parent_folder(folder)  # of a store that does not configure log folders
            if folder == default_log_folder(other_root) and other_root != self._root:
                self._lock(f"{other_root}/lock", name)

    def _lock(self, path: str, name: str) -> None:
        file = self._storage.open(path, create=True)
        self._lock_files.append(file)
        if not file.try_lock():
            raise StoreLocked(
                f"{name} is in use by another process (Lock failed,MQ already started)"
            )
        file.pwrite(b"lock", 0)

    def set(self) -> None:
        """Make `abort` durable, and with it the folders that were just made beside it."""
        file = self._storage.open(self._abort_path, create=True)
        try:
            file.fsync()
        finally:
            file.close()
        self._storage.fsync_dir(self._root)
        self._storage.fsync_dir(parent_folder(self._root))

    def remove(self) -> None:
        self._storage.unlink(self._abort_path)
        self._storage.fsync_dir(self._root)

    def unlock(self) -> None:
        for file in self._lock_files:
            file.close()
        self._lock_files.clear()
