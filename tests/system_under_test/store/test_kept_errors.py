"""Linux keeps the error of a failed write-back for the next process that fsyncs the file: it must not end that one."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import Any

import pytest

from staticfire.harness.simulation.disk.disk import SimDisk
from staticfire.system_under_test.runtime.env import File
from tests.system_under_test.store.store_on_disk import ROOT, StoreOnDisk, make_message

LOG = "/data/commitlog"


class KeptErrors:
    """A storage whose kernel has an error for the next fsync of each file of `paths`, and of each folder."""

    def __init__(self, disk: SimDisk, paths: set[str]) -> None:
        self._disk = disk
        self.paths = paths

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def open(self, path: str, *, create: bool = False) -> Any:
        return KeptError(self._disk.open(path, create=create), self, path)

    def fsync_dir(self, path: str) -> None:
        self.report(path)
        self._disk.fsync_dir(path)

    def take_errors(self, folder: str) -> None:
        self.paths = {path for path in self.paths if not f"{path}/".startswith(f"{folder}/")}

    def report(self, path: str) -> None:
        if path in self.paths:
            self.paths.remove(path)
            raise OSError(errno.EIO, f"kept for {path}")


class KeptError:
    def __init__(self, file: File, storage: KeptErrors, path: str) -> None:
        self._file = file
        self._storage = storage
        self._path = path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def fsync(self) -> None:
        self._storage.report(self._path)
        self._file.fsync()

    def fdatasync(self) -> None:
        self.fsync()


@pytest.mark.parametrize("log_folders", [(), (LOG,)])
def test_a_store_takes_the_errors_of_its_predecessor(
    monkeypatch: pytest.MonkeyPatch, log_folders: tuple[str, ...]
) -> None:
    on_disk = StoreOnDisk()
    on_disk.config = replace(on_disk.config, log_folders=log_folders)
    on_disk.open()
    on_disk.put_visible(make_message(b"before"))
    on_disk.flush_queues()
    on_disk.kill()
    disk = on_disk.disk
    files = set(disk.snapshot())
    folders = {path.rpartition("/")[0] for path in files}
    assert f"{ROOT}/checkpoint" in files
    kept = KeptErrors(disk, files | folders)
    monkeypatch.setattr(on_disk, "disk", kept)
    on_disk.open()
    on_disk.put_visible(make_message(b"after"))
    on_disk.flush_queues()
    on_disk.put_visible(make_message(b"last"))
    on_disk.flush_queues()
    on_disk.store.close()
    assert on_disk.store.failure is None
    assert [path for path in kept.paths if path.startswith((f"{ROOT}/", f"{LOG}/"))] == []
    assert on_disk.open().clean
    assert on_disk.bodies() == [b"before", b"after", b"last"]
