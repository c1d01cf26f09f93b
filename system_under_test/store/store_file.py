"""A file of the store that is opened at first use."""

from __future__ import annotations

from contextlib import suppress

from staticfire.system_under_test.runtime.env import File, Storage


class StoreFile:
    """A file at `path`. `is_new`: its size or its name may not be durable."""

    __slots__ = ("_file", "_storage", "is_new", "path")

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self._file: File | None = None
        self.path = path
        self.is_new = False

    @property
    def file(self) -> File:
        """The open file; opened at first use, since a store may have more files than a process may open."""
        if self._file is None:
            self._file = self._storage.open(self.path)
        return self._file

    def forget_cache(self) -> None:
        """Let later reads come from the disk (see `File.forget_cache`); a file that was closed stays closed.

        It ignores errors: Linux reports a failed write-back once, possibly to a later process. What failed is not on
        the disk, and that is all that counts here.
        """
        was_open = self._file is not None
        with suppress(OSError):
            self.file.fsync()
        self.file.forget_cache()
        if not was_open:
            self.close()

    def remove(self) -> None:
        """Close and unlink; not durable yet. Raises OSError."""
        self.close()
        self._storage.unlink(self.path)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
