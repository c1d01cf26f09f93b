"""Creates folders whose entries survive a power cut."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from staticfire.system_under_test.runtime.env import Storage

# Errors of fsync(2) on a folder that this process may not read, or whose file system cannot sync folders (read-only).
_NOT_SYNCED = {errno.EACCES, errno.EINVAL, errno.EROFS}


def parent_folder(path: str) -> str:
    """The folder that holds `path`; "/" at the top."""
    return path.rpartition("/")[0] or "/"


def make_durable_folder(storage: Storage, path: str) -> None:
    """Create the folder and its parents, and make the entries of those that were missing durable."""
    missing = []
    folder = path
    while folder != "/" and not storage.exists(folder):
        missing.append(folder)
        folder = parent_folder(folder)
    if missing:
        storage.makedirs(path)
        for folder in reversed(missing):
            storage.fsync_dir(parent_folder(folder))


def sync_parents(storage: Storage, paths: Sequence[str]) -> None:
    """Make the entries of these folders and of all their parents durable.

    An earlier process may have made them and died before it synced them. Skips parents that this process cannot sync
    at all. Raises OSError if a sync fails.
    """
    parents = set()
    for path in paths:
        while path != "/":
            path = parent_folder(path)
            parents.add(path)
    for parent in sorted(parents):
        try:
            storage.fsync_dir(parent)
        except OSError as error:
            if error.errno not in _NOT_SYNCED:
                raise
