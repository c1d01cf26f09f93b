"""A disk of a simulated host: a page cache that a power cut empties, and faults on demand.

`SimDisk` implements the system's `Storage` and knows no event loop: time, randomness and the cost of a call come in
through the constructor. The page cache survives the death of a process (`release_locks`) and not a power cut
(`power_cut`, later `power_on`). `crash` decides what is left of files, `namespace` what is left of their names. The
faults (`fill`, `fail_write`, `fail_fsync`, `slow`, `cut_at`, `cut_at_sync`, `cut_at_name`, `destroy`, `heal`) are those
of `device`. `wipe` replaces the disk by an empty one.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from random import Random

from staticfire.harness.simulation.disk.calls import Call
from staticfire.harness.simulation.disk.crash import draw_below, lose_power
from staticfire.harness.simulation.disk.device import DiskDevice, PowerCut
from staticfire.harness.simulation.disk.file import SimFile
from staticfire.harness.simulation.disk.inode import Content, Inode, whole_blocks
from staticfire.harness.simulation.disk.namespace import (
    FolderSync,
    Namespace,
    parent_of,
    posix_error,
)
from staticfire.harness.simulation.disk.options import (
    DiskCounters,
    DiskOptions,
    Dropped,
    PowerCutReport,
)
from staticfire.harness.simulation.disk.snapshot import Snapshot
from staticfire.system_under_test.runtime.env import DiskUsage

__all__ = ["DiskCounters", "DiskOptions", "PowerCut", "PowerCutReport", "SimDisk", "SimFile"]


class SimDisk(DiskDevice):
    """The file system of one simulated host. `epoch_ms` is the wall time of `now_ns() == 0`, for `modified_ms`."""

    def __init__(
        self,
        *,
        random: Random,
        now_ns: Callable[[], int],
        world_ns: Callable[[], int] | None = None,
        charge: Callable[[int], None],
        on_power_cut: Callable[[], None] | None = None,
        caller: Callable[[], Call | None] | None = None,
        options: DiskOptions | None = None,
        epoch_ms: int = 0,
    ) -> None:
        super().__init__(
            random=random,
            now_ns=now_ns,
            world_ns=world_ns,
            charge=charge,
            on_power_cut=on_power_cut,
            caller=caller,
            options=options,
        )
        self._epoch_ms = epoch_ms
        self._names = Namespace(self.now_ns)
        self._opened: dict[SimFile, None] = {}
        self._write_back_ns = self.options.write_back_every_ns  # the kernel's next check

    # --- Storage --------------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> SimFile:
        self._begin_call(path)
        inode = self._names.file(path)
        if inode is None:
            if not create:
                raise posix_error(errno.ENOENT, path)
            inode = Inode(self.now_ns())
            self._change_names(partial(self._link, path, inode))
        opened = SimFile(self, inode, path, self._opened.pop)
        self._opened[opened] = None
        return opened

    def exists(self, path: str) -> bool:
        self._begin_call(path)
        return self._names.exists(path)

    def listdir(self, path: str) -> list[str]:
        self._begin_call(path)
        names = self._names.names(path)
        turn = draw_below(
            self.random, max(1, len(names))
        )  # in a seeded order, since no program may rely on one
        return names[turn:] + names[:turn]

    def makedirs(self, path: str) -> None:
        self._begin_call(path)
        missing = []
        folder = path
        while not self._names.exists(folder):
            missing.append(folder)
            folder = parent_of(folder)
        if not missing and not self._names.is_folder(path):
            raise posix_error(errno.EEXIST, path)
        for folder in reversed(missing):
            self._change_names(partial(self._names.link, folder, None))

    def rename(self, source: str, target: str) -> None:
        self._begin_call(source)
        self._change_names(partial(self._rename, source, target))

    def unlink(self, path: str) -> None:
        self._begin_call(path)
        self._change_names(partial(self._unlink, path))

    def rmdir(self, path: str) -> None:
        self._begin_call(path)
        self._change_names(partial(self._names.remove_folder, path))

    def fsync_dir(self, path: str) -> None:
        self._begin_call(path)
        self._names.check_folder(path)
        self.counters.operations += 1
        if self.restricted:
            fails = self.replay_sync()
            if fails:
                raise posix_error(errno.EIO, path)
            if fails is not None:
                return
        if self.is_cut_due_in_sync():
            self.strike()
        begin_ns = self.now_ns()
        end_ns = self.charge_device(self.options.entry_sync_ns)
        if self.take_sync_failure():
            raise posix_error(errno.EIO, path)
        self.counters.syncs += 1
        self._names.sync_folder(path, begin_ns, end_ns)
        folder = _FolderInFlight(self._names, path)
        self.calls.synced(folder, begin_ns, end_ns, self.world_ns())
        self._names.settle(self.world_ns())

    def take_errors(self, folder: str) -> None:
        """Do nothing: this disk reports no error to a file that is opened after it."""

    def disk_usage(self, path: str) -> DiskUsage:
        self._begin_call(path)
        total_bytes, free_bytes = self.options.total_bytes, self.free_bytes
        self.counters.full_looks += self.is_filled and free_bytes * 10 < total_bytes
        return DiskUsage(total_bytes=total_bytes, free_bytes=free_bytes)

    def modified_ms(self, path: str) -> int:
        self._begin_call(path)
        inode = self._names.file(path)
        if inode is None:
            raise posix_error(errno.ENOENT, path)
        return self._epoch_ms + inode.modified_ns // 1_000_000

    def open_paths(self) -> list[str]:
        """Return the path by which each descriptor was opened; a removed file has the suffix that Linux shows."""
        return [opened.shown_path for opened in self._opened]

    # --- power and processes --------------------------------------------------------------------------------------

    def release_locks(self) -> None:
        """Close the files of a process that has died, which releases its locks.

        The kernel completes the call that a thread of the process was in.
        """
        self._close_all()
        self.calls.forget()
        now_ns = self.now_ns()
        self._names.do_by(now_ns)
        for _, inode in self._names.files():
            inode.do_by(now_ns)

    def _close_all(self) -> None:
        for opened in list(self._opened):
            opened.close()

    def power_cut(self) -> PowerCutReport:
        """Lose what was not synced, as the seed decides. Calls raise PowerCut until `power_on`.

        A sync in flight may have written any part of what it covers. An executor job runs at one instant, but each of
        its changes has a time; the changes after the cut are dropped.
        """
        self._close_all()
        self.calls.forget()
        self.is_powered = False
        self.cancel_cut()
        now_ns = self.now_ns()
        self.write_back(now_ns)
        entries_lost = self._names.lose_power(self.random, now_ns)
        bytes_lost = sectors_torn = 0
        dropped: list[Dropped] = []
        for path, inode in self._names.files():
            loss = lose_power(inode, self.random, now_ns)
            bytes_lost += loss.bytes_lost
            sectors_torn += loss.sectors_torn
            dropped += [Dropped(path, start, end) for start, end in loss.dropped]
        self._count_space()
        self._count_power_cut(bytes_lost, sectors_torn, entries_lost)
        self.note("power cut", tuple(dropped))
        return PowerCutReport(
            bytes_lost=bytes_lost,
            sectors_torn=sectors_torn,
            entries_lost=entries_lost,
            dropped=tuple(dropped),
        )

    def power_on(self) -> None:
        self.is_powered = True
        self._free_at_ns = 0
        self._update_restricted()

    def wipe(self) -> int:
        """Replace the disk by a new, empty one; return the number of bytes that its files had.

        No process may have a file open.
        """
        self.release_locks()
        size = sum(inode.cached.size for _, inode in self._names.files())
        self._names = Namespace(self.now_ns)
        self._allocated_bytes = 0
        return size

    # --- for tests and observers: no cost, no faults, no power needed ---------------------------------------------

    @property
    def dirty_bytes(self) -> int:
        """Return the number of written bytes that are not durable yet."""
        dirty = 0
        for _, inode in self._names.files():
            inode.settle(self.world_ns())
            dirty += inode.dirty_bytes
        return dirty

    def has(self, path: str) -> bool:
        """Whether a process would find a file or folder at this path."""
        return self._names.exists(path)

    def is_durable(self, path: str, offset: int = 0, size: int = 0) -> bool:
        """Whether `size` bytes at `offset` survive any power cut; with 0 bytes, whether the name does."""
        self._names.settle(self.world_ns())
        if self.is_destroyed or not self._names.is_durable(path):
            return False
        inode = self._names.file(path)
        if inode is None:
            return False
        inode.settle(self.world_ns())
        if offset + size > min(inode.cached.size, inode.durable.size):
            return False
        return inode.cached.read(size, offset) == inode.durable.read(size, offset)

    def read_cached(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        """Return the bytes that a process would read now."""
        inode = self._names.file(path)
        if inode is None:
            raise posix_error(errno.ENOENT, path)
        return _read(inode.cached, offset, size)

    def read_durable(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        """Return the bytes that this path would have if the power failed and no pending change arrived."""
        self._names.settle(self.world_ns())
        inode = self._names.durable_file(path)
        if inode is None:
            raise posix_error(errno.ENOENT, path)
        inode.settle(self.world_ns())
        return _read(inode.durable, offset, size)

    def snapshot(self) -> Snapshot:
        """Return every file by path, with the content that a process would read now."""
        return Snapshot((path, inode.cached) for path, inode in self._names.files())

    def flip_bit(self, path: str, *, within: tuple[int, int] | None = None) -> int | None:
        """Flip a seeded bit on the platter; return the offset of its byte, None in an empty file.

        Args:
            within: range of bytes that may change, end excluded; by default the whole file.
        """
        self._names.settle(self.world_ns())
        inode = self._names.durable_file(path)
        if inode is None:
            raise posix_error(errno.ENOENT, path)
        inode.settle(self.world_ns())
        if not inode.durable.data:
            return None
        start, end = within or (0, len(inode.durable.data))
        position = start + draw_below(self.random, end - start)
        before = inode.durable.data[position]
        after = before ^ (1 << draw_below(self.random, 8))
        inode.durable.data[position] = after
        # A clean page may be read again from the platter at any time; a dirty one hides the damage.
        if inode.cached.read(1, position) == bytes([before]):
            inode.cached.write(bytes([after]), position)
        self.counters.bits_flipped += 1
        return position

    # --- inside ---------------------------------------------------------------------------------------------------

    def write_back(self, now_ns: int) -> None:
        """Start write-back of files with old dirty pages, at each of the kernel's checks up to `now_ns`.

        Write-back occupies the device. No process waits for it or gets its result.
        """
        options = self.options
        while (look_ns := self._write_back_ns) <= now_ns:
            self._write_back_ns += options.write_back_every_ns
            for _, inode in self._names.files():
                waiting = inode.changes[inode.in_flight_changes :]
                if not waiting or waiting[0].made_ns > look_ns - options.write_back_after_ns:
                    continue
                cost_ns = int(inode.waiting_bytes * options.durable_byte_ns)
                inode.begin_sync(look_ns, self.occupy(look_ns, cost_ns))

    def _begin_call(self, path: str) -> None:
        if self.restricted:
            self.check_alive(path)
        self.charge(self.options.call_ns)

    def _change_names(self, change: Callable[[], None]) -> None:
        """Apply one change of a name; a chosen power cut strikes before or after it."""
        self.calls.changed()
        self.counters.operations += 1
        if self.is_cut_due_in_name():
            if self.random.random() < 0.5:
                change()
            self.strike()
        change()

    def _link(self, path: str, inode: Inode) -> None:
        self._names.link(path, inode)
        inode.links = 1

    def _unlink(self, path: str) -> None:
        self._forget(self._names.unlink(path))

    def _rename(self, source: str, target: str) -> None:
        replaced = self._names.rename(source, target)
        if replaced is not None:
            self._forget(replaced)

    def _forget(self, inode: Inode) -> None:
        """Free the blocks of a file without a name, unless a process has it open."""
        inode.links = 0
        if not inode.open_files:
            self.release(inode)

    def _count_space(self) -> None:
        """Count the blocks again: a power cut can shrink files or bring them back."""
        self._allocated_bytes = 0
        for _, inode in self._names.files():
            inode.links = 1
            kept = min(inode.allocated_bytes, whole_blocks(inode.cached.size))
            inode.allocated_bytes = max(kept, whole_blocks(len(inode.cached.data)))
            self._allocated_bytes += inode.allocated_bytes

    def _count_power_cut(self, bytes_lost: int, sectors_torn: int, entries_lost: int) -> None:
        counters = self.counters
        counters.power_cuts += 1
        counters.bytes_lost += bytes_lost
        counters.sectors_torn += sectors_torn
        counters.entries_lost += entries_lost


class _FolderInFlight:
    """The SyncTarget of a folder. A failed sync makes nothing durable; the next one covers its entries."""

    __slots__ = ("_names", "_path")

    def __init__(self, names: Namespace, path: str) -> None:
        self._names = names
        self._path = path

    def fail_sync(self, begin_ns: int, end_ns: int) -> None:
        self._names.cancel_sync(self._path, begin_ns, end_ns)

    def cancel_sync(self, begin_ns: int, end_ns: int) -> None:
        self._names.cancel_sync(self._path, begin_ns, end_ns)

    def move_sync(self, begin_ns: int, end_ns: int, new_begin_ns: int, new_end_ns: int) -> None:
        self._names.move_sync(FolderSync(self._path, begin_ns, end_ns), new_begin_ns, new_end_ns)


def _read(content: Content, offset: int, size: int | None) -> bytes:
    return content.read(content.size if size is None else size, offset)
