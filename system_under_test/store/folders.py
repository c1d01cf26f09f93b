"""Folders whose entries survive a power cut."""

from __future__ import annotations

from staticfire.system_under_test.runtime.env import Storage


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
