"""The served folder: opens files one name at a time, never through a link, and reads up to a bound."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

NAMES_MAX = 100_000  # of one folder
NAME_BYTES_MAX = 255
DEPTH_MAX = 16
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = (
    os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
)  # a pipe must not block the server


class NotServed(Exception):
    """A file is missing, or must not be served: a link, a device, a bad name, or larger than its bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file or folder. `size` is in bytes, `changed_ns` in nanoseconds since 1970."""

    name: str
    is_folder: bool
    size: int
    changed_ns: int
    number: int  # of the inode


class ServedFolder:
    """A folder of runs. Paths are sequences of names below it."""

    def __init__(self, root: Path) -> None:
        """Raises OSError if the folder cannot be opened."""
        self.root = root.resolve(strict=True)
        os.close(os.open(self.root, _FOLDER))

    def entries(self, path: Sequence[str] = ()) -> list[Entry]:
        """Return files and folders by name, without links, devices and names that are not UTF-8. Raises NotServed."""
        with self._folder(path) as folder, os.scandir(folder) as found:
            entries = []
            for number, one in enumerate(found):
                if number >= NAMES_MAX:
                    break
                try:
                    status = one.stat(follow_symlinks=False)
                except OSError:
                    continue
                entry = _entry(one.name, status)
                if entry is not None and _is_name(one.name):
                    entries.append(entry)
            return sorted(entries, key=lambda entry: entry.name)

    def entry(self, path: Sequence[str]) -> Entry:
        """Return one file or folder. Raises NotServed."""
        _check(path)
        with self._folder(path[:-1]) as folder:
            try:
                status = os.stat(path[-1], dir_fd=folder, follow_symlinks=False)
            except (OSError, ValueError) as error:
                raise NotServed(str(error)) from error
        entry = _entry(path[-1], status)
        if entry is None:
            raise NotServed(f"{path[-1]} is neither a file nor a folder")
        return entry

    def has(self, path: Sequence[str]) -> bool:
        """Whether the file or folder exists and may be served."""
        try:
            self.entry(path)
        except NotServed:
            return False
        return True

    def open(self, path: Sequence[str]) -> BinaryIO:
        """Open a plain file. Raises NotServed."""
        _check(path)
        with self._folder(path[:-1]) as folder:
            try:
                descriptor = os.open(path[-1], _FILE, dir_fd=folder)
            except (OSError, ValueError) as error:
                raise NotServed(str(error)) from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise NotServed(f"{path[-1]} is no plain file")
        return os.fdopen(descriptor, "rb")

    def read(self, path: Sequence[str], bytes_max: int) -> bytes:
        """Return the content of a file. Raises NotServed, also for a file above the bound."""
        with self.open(path) as file:
            data = file.read(bytes_max + 1)
        if len(data) > bytes_max:
            raise NotServed(f"{path[-1]} has more than {bytes_max} bytes")
        return data

    @contextmanager
    def _folder(self, path: Sequence[str]) -> Iterator[int]:
        """Yield a descriptor of a folder, opened step by step from its parent, through no link. Raises NotServed."""
        if path:
            _check(path)
        try:
            descriptor = os.open(self.root, _FOLDER)
        except OSError as error:
            raise NotServed(str(error)) from error
        try:
            for name in path:
                try:
                    inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
                except (OSError, ValueError) as error:
                    raise NotServed(str(error)) from error
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
            raise NotServed(str(error)) from error
        finally:
            os.close(descriptor)


def _is_name(name: str) -> bool:
    if name in ("", ".", "..") or "/" in name or "\\" in name or "\0" in name:
        return False
    try:
        return len(name.encode()) <= NAME_BYTES_MAX
    except UnicodeEncodeError:
        return False


def _check(path: Sequence[str]) -> None:
    if not path or len(path) > DEPTH_MAX or not all(map(_is_name, path)):
        raise NotServed("no path of names")


def _entry(name: str, status: os.stat_result) -> Entry | None:
    is_folder = stat.S_ISDIR(status.st_mode)
    if not is_folder and not stat.S_ISREG(status.st_mode):
        return None
    return Entry(
        name=name,
        is_folder=is_folder,
        size=status.st_size,
        changed_ns=status.st_mtime_ns,
        number=status.st_ino,
    )
