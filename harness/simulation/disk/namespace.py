"""Names of the simulated disk: folders and directory entries, volatile until `sync_folder`.

Every change of a name goes to a journal in order. `sync_folder` makes the entries of one folder durable when it ends.
POSIX promises nothing for other folders, nor for the folder's own entry in its parent. A power cut keeps a seeded
prefix of the other changes. A file or folder is lost if its parent is.
"""

from __future__ import annotations

import errno
import os
from bisect import insort
from collections.abc import Callable, Iterator
from enum import IntEnum
from random import Random
from typing import NamedTuple

from staticfire.harness.simulation.disk.crash import draw_below
from staticfire.harness.simulation.disk.inode import Inode


class EntryKind(IntEnum):
    LINK = 0
    UNLINK = 1
    RENAME = 2


class Entry(NamedTuple):
    """One change of a name. `node` is None for a folder; `source` is the old path of a RENAME."""

    kind: EntryKind
    path: str
    node: Inode | None
    made_ns: int
    source: str = ""

    def folders(self) -> tuple[str, ...]:
        folder = parent_of(self.path)
        return (folder, parent_of(self.source)) if self.source else (folder,)

    def crosses_folders(self) -> bool:
        """Whether the change concerns two folders: it moves a file between them, or removes an empty folder."""
        if self.kind == EntryKind.RENAME:
            return parent_of(self.path) != parent_of(self.source)
        return self.kind == EntryKind.UNLINK and self.node is None


class FolderSync(NamedTuple):
    """A sync of a folder, begun and perhaps not ended."""

    path: str
    begin_ns: int
    end_ns: int


def _end_of(sync: FolderSync) -> int:
    return sync.end_ns


def parent_of(path: str) -> str:
    """Return the folder that holds `path`; "/" for a name at the top."""
    return path.rpartition("/")[0] or "/"


def posix_error(number: int, path: str) -> OSError:
    """Return the OSError, of its proper subclass, that the real call would raise for `path`."""
    return OSError(number, os.strerror(number), path)


class Namespace:
    """Maps paths to inodes, as the processes see them (`_nodes`) and as they are on the platter (`_durable`)."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._nodes: dict[str, Inode | None] = {"/": None}
        self._children: dict[str, dict[str, None]] = {"/": {}}  # dicts: ordered sets of names
        self._durable: dict[str, Inode | None] = {"/": None}
        self._journal: list[Entry] = []
        self._in_flight: list[FolderSync] = []  # in the order in which they end

    def file(self, path: str) -> Inode | None:
        """Return the file at `path`, or None if the name is free. Raises IsADirectoryError for a folder."""
        node = self._nodes.get(path)
        if node is None and path in self._nodes:
            raise posix_error(errno.EISDIR, path)
        return node

    def exists(self, path: str) -> bool:
        return path in self._nodes

    def is_folder(self, path: str) -> bool:
        return path in self._children

    def names(self, folder: str) -> list[str]:
        """Return the names in `folder`, sorted. Raises NotADirectoryError or FileNotFoundError."""
        self.check_folder(folder)
        return sorted(self._children[folder])

    def check_folder(self, path: str) -> None:
        if path not in self._children:
            raise posix_error(errno.ENOTDIR if path in self._nodes else errno.ENOENT, path)

    def link(self, path: str, node: Inode | None) -> None:
        """Add a new file, or a new folder if `node` is None."""
        self.check_folder(parent_of(path))
        self._enter(path, node)
        self._journal.append(Entry(EntryKind.LINK, path, node, self._now_ns()))

    def unlink(self, path: str) -> Inode:
        """Remove the name of a file; return the file."""
        node = self.file(path)
        if node is None:
            raise posix_error(errno.ENOENT, path)
        self._remove(path)
        self._journal.append(Entry(EntryKind.UNLINK, path, node, self._now_ns()))
        return node

    def remove_folder(self, path: str) -> None:
        if self.names(path):
            raise posix_error(errno.ENOTEMPTY, path)
        self._remove(path)
        del self._children[path]
        self._journal.append(Entry(EntryKind.UNLINK, path, None, self._now_ns()))

    def rename(self, source: str, target: str) -> Inode | None:
        """Move a file atomically; return the file that it replaces at `target`, or None."""
        node = self.file(source)
        if node is None:
            raise posix_error(errno.ENOENT, source)
        self.check_folder(parent_of(target))
        replaced = self.file(target)
        if replaced is node:
            return None
        self._remove(source)
        self._enter(target, node)
        self._journal.append(Entry(EntryKind.RENAME, target, node, self._now_ns(), source))
        return replaced

    def sync_folder(self, path: str, begin_ns: int, end_ns: int) -> None:
        """Begin a sync that makes the changes of this folder up to `begin_ns` durable at `end_ns`.

        A change that concerns a second folder makes all changes before it durable, too: the journal stays in order.
        """
        self.check_folder(path)
        insort(self._in_flight, FolderSync(path, begin_ns, end_ns), key=_end_of)

    def cancel_sync(self, path: str, begin_ns: int, end_ns: int) -> None:
        """Remove this sync of a folder, as if it had not begun."""
        cancelled = FolderSync(path, begin_ns, end_ns)
        self._in_flight = [sync for sync in self._in_flight if sync != cancelled]

    def move_sync(self, former: FolderSync, begin_ns: int, end_ns: int) -> None:
        """Give this sync of a folder new times."""
        moved = former._replace(begin_ns=begin_ns, end_ns=end_ns)
        self._in_flight = [moved if sync == former else sync for sync in self._in_flight]
        self._in_flight.sort(key=_end_of)

    def settle(self, now_ns: int) -> None:
        """Make the changes durable that are covered by the syncs that ended by `now_ns`."""
        while self._in_flight and self._in_flight[0].end_ns <= now_ns:
            self._land(self._in_flight.pop(0))

    def _land(self, sync: FolderSync) -> None:
        path = sync.path
        journal = [entry for entry in self._journal if entry.made_ns <= sync.begin_ns]
        later = [entry for entry in self._journal if entry.made_ns > sync.begin_ns]
        border = -1
        for number, entry in enumerate(journal):
            if entry.crosses_folders() and path in entry.folders():
                border = number
        for number, entry in enumerate(journal):
            if number <= border or path in entry.folders():
                self._apply(entry)
        self._journal = [
            entry for entry in journal[border + 1 :] if path not in entry.folders()
        ] + later

    def do_by(self, now_ns: int) -> None:
        """Move the time of later changes to `now_ns`."""
        self._journal = [
            entry._replace(made_ns=min(entry.made_ns, now_ns)) for entry in self._journal
        ]

    def lose_power(self, random: Random, now_ns: int) -> int:
        """Keep a seeded prefix of the journal, drop names without a parent; return the number of lost entries."""
        self.settle(now_ns)
        self._in_flight = []
        self._journal = [entry for entry in self._journal if entry.made_ns <= now_ns]
        kept = draw_below(random, len(self._journal) + 1)
        for entry in self._journal[:kept]:
            self._apply(entry)
        lost = len(self._journal) - kept
        self._journal = []
        self._nodes = {"/": None}
        self._children = {"/": {}}
        for path in sorted(self._durable):  # a parent sorts before its children
            if path != "/" and parent_of(path) in self._children:
                self._enter(path, self._durable[path])
        self._durable = dict(self._nodes)
        return lost

    def is_durable(self, path: str) -> bool:
        """Whether `path` names the same file after any power cut."""
        if path not in self._nodes:
            return False
        changed = {name for entry in self._journal for name in (entry.path, entry.source)}
        while changed and path != "/":
            if path in changed:
                return False
            path = parent_of(path)
        return True

    def durable_file(self, path: str) -> Inode | None:
        """Return the file that `path` names on the platter, or None."""
        return self._durable.get(path)

    def files(self) -> Iterator[tuple[str, Inode]]:
        """Return every file by path, sorted."""
        for path in sorted(self._nodes):
            node = self._nodes[path]
            if node is not None:
                yield path, node

    def _enter(self, path: str, node: Inode | None) -> None:
        self._nodes[path] = node
        folder, _, name = path.rpartition("/")
        self._children[folder or "/"][name] = None
        if node is None:
            self._children[path] = {}

    def _remove(self, path: str) -> None:
        del self._nodes[path]
        folder, _, name = path.rpartition("/")
        del self._children[folder or "/"][name]

    def _apply(self, entry: Entry) -> None:
        if entry.kind == EntryKind.UNLINK:
            self._durable.pop(entry.path, None)
            return
        if entry.kind == EntryKind.RENAME:
            self._durable.pop(entry.source, None)
        self._durable[entry.path] = entry.node
