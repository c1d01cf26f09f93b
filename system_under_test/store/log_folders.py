"""The folders that hold the files of one commit log (RocketMQ, MultiPathMappedFileQueue)."""

from __future__ import annotations

from collections.abc import Callable


def default_log_folder(root: str) -> str:
    """The folder of a store's log unless configured otherwise."""
    return f"{root}/commitlog"


class LogFolders:
    """File number n goes to the n-th writable folder, in order of names, modulo how many have space.

    Args:
        writable: where new files may go; at least one.
        read_only: further folders with files of the log.
        is_full: whether a folder's file system is too full for new files.
    """

    __slots__ = ("_is_full", "all", "writable")

    def __init__(
        self,
        writable: tuple[str, ...],
        *,
        read_only: tuple[str, ...] = (),
        is_full: Callable[[str], bool],
    ) -> None:
        self._is_full = is_full
        self.writable = tuple(sorted({*writable} - {*read_only}))
        self.all = tuple(sorted({*writable, *read_only}))

    def for_file(self, number: int) -> tuple[str, ...]:
        """Folders for file `number`, best first; the others serve if the file does not fit into the first."""
        if len(self.writable) == 1:
            return self.writable
        roomy = [folder for folder in self.writable if not self._is_full(folder)]
        folders = roomy or list(self.writable)
        first = number % len(folders)
        return (*folders[first:], *folders[:first])
