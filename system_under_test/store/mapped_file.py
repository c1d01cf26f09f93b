"""Fixed-size files that form one long byte sequence (RocketMQ, MappedFile and MappedFileQueue; ours are not mapped).

A file's name is the 20-digit offset of its first byte. A file is allocated in full before anything is written to it,
so that a write can neither run out of space nor change a size. It counts as *new* until its size and its folder entry
are durable. Only the last file may be new. So a power cut leaves a short or missing file only at the end, and a wrong
size anywhere else is damage that the store must report.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from staticfire.system_under_test.runtime.env import Storage
from staticfire.system_under_test.store.errors import NoSpace, StoreError
from staticfire.system_under_test.store.folders import parent_folder
from staticfire.system_under_test.store.store_file import StoreFile

NAME_DIGITS = 20
_ZEROS = bytes(1 << 20)


class MappedFile(StoreFile):
    """One file of a sequence; `base` is the offset of its first byte in the sequence."""

    __slots__ = ("base",)

    def __init__(self, storage: Storage, folder: str, base: int) -> None:
        super().__init__(storage, f"{folder}/{base:0{NAME_DIGITS}d}")
        self.base = base

    def create(self, size: int) -> None:
        """Make the file with `size` allocated bytes of zeros. On OSError no part of it is left."""
        self._file = self._storage.open(self.path, create=True)
        self.is_new = True
        try:
            self._file.allocate(size)
        except OSError:
            self.remove()
            raise

    def wipe_from(self, position: int, size: int) -> None:
        """Zero everything from `position` and make the file `size` bytes long, all of it allocated."""
        self.file.truncate(position)
        self.file.allocate(size)


class MappedFileQueue:
    """The files of one folder, or of several, in order of offset. An empty sequence may begin anywhere."""

    __slots__ = (
        "_choose",
        "_parents",
        "_retired",
        "_storage",
        "file_size",
        "files",
        "folders",
        "refused_in",
    )

    def __init__(
        self,
        storage: Storage,
        folder: str,
        file_size: int,
        *,
        parents: tuple[str, ...] = (),
        folders: tuple[str, ...] = (),
        choose: Callable[[int], tuple[str, ...]] | None = None,
    ) -> None:
        """A sequence in `folder`.

        Args:
            parents: folders above `folder`, deepest first, whose names may not be durable yet.
            folders: all folders with files of the sequence, if there are others than `folder`.
            choose: maps a file's number to folders where it may go, best first; None: to `folder`.
        """
        self._storage = storage
        self.folders = folders or (folder,)
        self._parents = parents
        self._choose = choose or (lambda _number: (folder,))
        self.file_size = file_size
        self.files: list[MappedFile] = []
        # folder of a file for which there was no space; its removal may not be durable
        self.refused_in = ""
        self._retired: list[
            MappedFile
        ] = []  # removed files whose handles a flush in flight may hold

    @property
    def folder(self) -> str:
        """The folder; the first of them if there are several."""
        return self.folders[0]

    @property
    def entry_folders(self) -> tuple[str, ...]:
        """Folders to sync, deepest first, when a file is new: only the last one may be."""
        folder = parent_folder(self.files[-1].path) if self.files else self.folder
        return (folder, *self._parents)

    @property
    def first_offset(self) -> int:
        return self.files[0].base if self.files else 0

    @property
    def end_of_files(self) -> int:
        """Where the last file ends."""
        return self.files[-1].base + self.file_size if self.files else 0

    def load(self, *, clean: bool = False, whole: bool = False) -> None:
        """Find the files and check their names and sizes; changes nothing. Raises StoreError.

        Only a power cut leaves a short file: after a proper close (`clean`) a short file means another configured size.
        With `whole` no file may be short in any case.
        """
        found = [
            (name, folder)
            for folder in self.folders
            if self._storage.exists(folder)
            for name in self._storage.listdir(folder)
        ]
        for name, folder in sorted(found):
            self._load_file(folder, name)
        for mapped_file in self.files[:-1]:
            self._check_size(mapped_file)
            mapped_file.close()
        if self.files:
            last = self.files[-1]
            if (
                whole or last.file.size()
            ):  # an empty file did not fit on the disk, and its removal was not durable
                self._check_size(last, may_be_short=not (clean or whole))
            # After a kill the page cache may show a full file of which nothing is durable yet.
            self.files[-1].is_new = True

    def forget_cache(self) -> None:
        """Read from the disk alone: the page cache may show what a failed fsync has not written."""
        for mapped_file in self.files:
            mapped_file.forget_cache()

    def sync_names(self) -> None:
        """If there are several folders, make the file names that an earlier process made or removed durable.

        The file system keeps the order of changes within one folder, but not among several: a name that comes back
        after a power cut would be a second file of its offset, or lie behind a gap.
        """
        if len(self.folders) > 1:
            for folder in self.folders:
                self._storage.fsync_dir(folder)

    def _load_file(self, folder: str, name: str) -> None:
        if len(name) != NAME_DIGITS or not name.isdecimal():
            raise StoreError(
                f"{folder}/{name} is not a store file: the name must be {NAME_DIGITS} digits"
            )
        base = int(name)
        expected = self.end_of_files if self.files else base - base % self.file_size
        if base != expected:
            raise StoreError(
                f"{folder}/{name} does not continue the files before it: {expected:020d} must be next"
            )
        self.files.append(MappedFile(self._storage, folder, base))

    def _check_size(self, mapped_file: MappedFile, *, may_be_short: bool = False) -> None:
        size = mapped_file.file.size()
        if size == self.file_size:
            return
        if may_be_short and size < self.file_size:  # a power cut while it was made or cut
            return
        raise StoreError(
            f"{mapped_file.path} has {size} bytes; every file there must have {self.file_size}, as configured"
        )

    def file_at(self, offset: int) -> MappedFile:
        """The file that holds `offset`, which must lie inside the sequence."""
        return self.files[(offset - self.files[0].base) // self.file_size]

    def create_next(self, base: int) -> None:
        """Append the file that begins at `base`.

        Raises:
            NoSpace: the sequence is as before.
            OSError: a file operation failed.
        """
        assert not self.files or base == self.end_of_files
        self.sync_new_files()
        folders = self._choose(base // self.file_size)
        for folder in folders:
            mapped_file = MappedFile(self._storage, folder, base)
            try:
                if not self.files:
                    self._storage.makedirs(folder)
                mapped_file.create(self.file_size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                no_space = NoSpace(f"no space for {mapped_file.path}: {error}")
                if len(folders) > 1 and self._storage.exists(folder):
                    # The next try may use another folder: this file must not come back there after a power cut.
                    self._storage.fsync_dir(folder)
                else:
                    self.refused_in = folder
            else:
                self.files.append(mapped_file)
                return
        raise no_space

    def complete_last(self) -> None:
        """Give a last file that is short its full size."""
        if not self.has_full_size():
            self.files[-1].file.allocate(self.file_size)

    def sync_new_files(self) -> None:
        """Make size and folder entry of new files durable."""
        new_files = [mapped_file for mapped_file in self.files if mapped_file.is_new]
        if not new_files:
            return
        for mapped_file in new_files:
            mapped_file.file.fsync()
        for folder in self.entry_folders:
            self._storage.fsync_dir(folder)
        for mapped_file in new_files:
            mapped_file.is_new = False

    def sync_refused(self) -> None:
        """Make the removal of a file durable for which there was no space: a clean start refuses a short file."""
        if self.refused_in and self._storage.exists(self.refused_in):
            self._storage.fsync_dir(self.refused_in)
        self.refused_in = ""

    def modified_ms(self, mapped_file: MappedFile) -> int:
        """The file's modification time in ms, by the file system's clock. Raises OSError."""
        return self._storage.modified_ms(mapped_file.path)

    def touched(self, start: int, end: int) -> list[MappedFile]:
        """Files with bytes of [start, end), and all new files."""
        return [
            mapped_file
            for mapped_file in self.files
            if mapped_file.is_new
            or (mapped_file.base < end and mapped_file.base + self.file_size > start)
        ]

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes; never across the end of a file. b"" outside the sequence."""
        files, file_size = self.files, self.file_size
        if not files:
            return b""
        number, position = divmod(offset - files[0].base, file_size)
        if not 0 <= number < len(files):
            return b""
        room = file_size - position
        return files[number].file.pread(size if size < room else room, position)

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Write `data`, which may cross file ends but must fit into the files there are."""
        while size := len(data):
            mapped_file = self.file_at(offset)
            position = offset - mapped_file.base
            room = self.file_size - position
            if size <= room:  # nearly always
                mapped_file.file.pwrite(data, position)
                return
            data = memoryview(data)
            mapped_file.file.pwrite(data[:room], position)
            offset += room
            data = data[room:]

    def cut(self, offset: int) -> None:
        """Remove the files at and beyond `offset`, last first, and zero what lies beyond it in the last remaining file.

        If old files were deleted and the sequence is now empty, one file of zeros stays: only its name shows the next
        start how far the sequence has come.
        The removal is durable before the wipe begins: a short file must be the last one. The wipe is durable after
        the caller's fsync: the file counts as new until then.
        """
        self.remove_from(offset)
        if self.files and offset < self.end_of_files:
            last = self.files[-1]
            last.wipe_from(offset - last.base, self.file_size)
            last.is_new = True

    def remove_from(self, offset: int) -> None:
        """Durably remove the files at and beyond `offset`, last first."""
        unsynced = ""
        while self.files and self.files[-1].base >= offset and not self._is_start(offset):
            mapped_file = self.files.pop()
            folder = parent_folder(mapped_file.path)
            # else a power cut could bring back only the later file
            if unsynced not in ("", folder):
                self._storage.fsync_dir(unsynced)
            self._storage.unlink(mapped_file.path)
            self._retired.append(mapped_file)
            unsynced = folder
        # Even if nothing was removed here: an earlier process may have died right after an unlink.
        if unsynced or (self.files and offset < self.end_of_files):
            self._storage.fsync_dir(unsynced or self.folder)

    def _is_start(self, offset: int) -> bool:
        """Whether `offset` is the start of the only file left, behind files that were deleted."""
        return len(self.files) == 1 and self.files[0].base == offset > 0

    def drop_first(self) -> MappedFile:
        """Forget the first file, which must not be the last; the caller removes it from the disk.

        No other file may be removed until this removal is durable: what is left must have no gap.
        """
        assert len(self.files) > 1
        return self.files.pop(0)

    def retire(self, mapped_file: MappedFile) -> None:
        """Let a file that is no longer of the sequence be closed once no flush is in flight."""
        self._retired.append(mapped_file)

    def is_blank_from(self, offset: int) -> bool:
        """Whether every byte from `offset` to the end of the files is zero and the last file has its full size."""
        return self.has_full_size() and self.end_of_content(offset) == offset

    def has_full_size(self) -> bool:
        """Whether the last file is not short."""
        return not self.files or self.files[-1].file.size() == self.file_size

    def end_of_content(self, offset: int) -> int:
        """Where the last byte other than zero at or after `offset` ends; `offset` if there is none."""
        end = offset
        for mapped_file in self.files:
            base = mapped_file.base
            if base + self.file_size > offset:
                # Get all ranges before the first read: pages that the kernel reads ahead no longer count as holes.
                for start, stop in mapped_file.file.content_ranges(max(0, offset - base)):
                    end = self._end_of_content_in(base + start, base + stop, end)
        return end

    def _end_of_content_in(self, position: int, stop: int, end: int) -> int:
        """Where the last byte other than zero of [position, stop) ends; `end` if there is none."""
        while position < stop:
            data = self.read(position, min(len(_ZEROS), stop - position))
            if not data:
                break
            if data != _ZEROS[: len(data)]:
                end = position + len(data.rstrip(b"\0"))
            position += len(data)
        return end

    def close_retired(self) -> None:
        """Close the retired files; call when no flush is in flight."""
        for mapped_file in self._retired:
            mapped_file.close()
        self._retired.clear()

    def close(self) -> None:
        self.close_retired()
        for mapped_file in self.files:
            mapped_file.close()
