"""Files of a node that does not run, written or removed behind its back."""

from __future__ import annotations

from collections.abc import Mapping

from staticfire.system_under_test.runtime.env import Storage


def change_files(storage: Storage, files: Mapping[str, bytes | None]) -> None:
    """Give these files new contents, for good; None removes one."""
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
