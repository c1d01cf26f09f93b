"""The files `lock` and `abort`: who has the store open, and whether the last one closed it properly."""

from __future__ import annotations

from system_under_test.env import File, Storage
from system_under_test.store.errors import StoreLocked
from system_under_test.store.folders import parent_folder

__all__ = ["RunningMark"]


class RunningMark:
    """`abort` exists from before the first change of a store until after the last one is durable."""

    __slots__ = ("_abort_path", "_lock_file", "_root", "_storage")

    def __init__(self, storage: Storage, root: str) -> None:
        self._storage = storage
        self._root = root
        self._abort_path = f"{root}/abort"
        self._lock_file: File | None = None

    @property
    def is_set(self) -> bool:
        return self._storage.exists(self._abort_path)

    def lock(self) -> None:
        """Raises StoreLocked if another process has the store open, a RocketMQ written in Java included."""
        self._lock_file = self._storage.open(f"{self._root}/lock", create=True)
        if not self._lock_file.try_lock():
            raise StoreLocked(
                f"store {self._root} is in use by another process (Lock failed,MQ already started)"
            )
        self._lock_file.pwrite(b"lock", 0)

    def set(self) -> None:
        """Make `abort` durable, and with it the folders that were just made beside it."""
        file = self._storage.open(self._abort_path, create=True)
        file.fsync()
        file.close()
        self._storage.fsync_dir(self._root)
        self._storage.fsync_dir(parent_folder(self._root))

    def remove(self) -> None:
        self._storage.unlink(self._abort_path)
        self._storage.fsync_dir(self._root)

    def unlock(self) -> None:
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None
