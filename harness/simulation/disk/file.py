"""An open file of a simulated disk."""

from __future__ import annotations

import errno
from collections.abc import Callable

from staticfire.harness.simulation.disk.crash import draw_below, tear_offset
from staticfire.harness.simulation.disk.device import DiskDevice
from staticfire.harness.simulation.disk.inode import BLOCK_SIZE, Change, ChangeKind, Inode
from staticfire.harness.simulation.disk.namespace import posix_error


class SimFile:
    """Implements the system's `File`. Reads and writes touch the page cache, syncs the device."""

    __slots__ = ("_device", "_failures_heard", "_inode", "_on_close", "is_open", "path")

    def __init__(
        self,
        device: DiskDevice,
        inode: Inode,
        path: str,
        on_close: Callable[[SimFile], object],
    ) -> None:
        self._device = device
        self._inode = inode
        self._on_close = on_close
        self._failures_heard = inode.sync_failures
        self.path = path  # the path by which it was opened, for error messages
        self.is_open = True
        inode.open_files += 1

    def pread(self, size: int, offset: int) -> bytes:
        device = self._device
        if device.restricted or not self.is_open:
            self._check_usable()
        options = device.options
        device.charge(options.call_ns + int(size * options.cached_byte_ns))
        return self._inode.cached.read(size, offset)

    def pwrite(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        device, inode = self._device, self._inode
        data = bytes(data)
        size = len(data)
        device.counters.operations += 1
        device.calls.changed()
        if device.restricted or not self.is_open:
            self._check_usable()
            self._check_write_faults(data, offset)
        options = device.options
        device.charge(options.call_ns + int(size * options.cached_byte_ns))
        if offset + size > inode.allocated_bytes:
            room = device.reserve(inode, offset + size)
            if room < offset + size:
                written = self._draw_short(room - offset)
                self._write(data[:written], offset)
                device.release(inode, inode.cached.size)
                raise device.no_space(self.path)
        self._write(data, offset)
        if device.watchers:
            for watcher in tuple(device.watchers):
                watcher.wrote(self.path, data)

    def allocate(self, size: int) -> None:
        device, inode = self._device, self._inode
        if self._begin_change():
            if device.random.random() < 0.5 and device.can_reserve(inode, size):
                self._allocate(size)
            device.strike()
        if not device.can_reserve(inode, size):
            if device.random.random() < 0.5:  # ext4 keeps what it allocated, XFS changes nothing
                self._allocate(device.reserve(inode, size))
            raise device.no_space(self.path)
        self._allocate(size)

    def truncate(self, size: int) -> None:
        device = self._device
        if self._begin_change():
            if device.random.random() < 0.5:
                self._truncate(size)
            device.strike()
        self._truncate(size)

    def fsync(self) -> None:
        device, inode = self._device, self._inode
        device.counters.operations += 1
        if device.restricted or not self.is_open:
            self._check_usable()
            if self._is_replayed():
                return
            self._check_sync_faults()
        device.counters.syncs += 1
        for watcher in tuple(device.watchers):
            watcher.syncing(self.path)
        begin_ns = device.now_ns()
        end_ns = self._charge_sync()
        inode.begin_sync(begin_ns, end_ns)
        device.calls.synced(self, begin_ns, end_ns, device.world_ns())
        # reported by another open file of this inode
        if inode.sync_failures != self._failures_heard:
            self._failures_heard = inode.sync_failures
            device.counters.sync_errors += 1
            raise posix_error(errno.EIO, self.path)

    def fdatasync(self) -> None:
        """Do the same as `fsync`: fdatasync also writes a grown size, without which the data could not be read."""
        self.fsync()

    def size(self) -> int:
        if self._device.restricted or not self.is_open:
            self._check_usable()
        return self._inode.cached.size

    def content_ranges(self, offset: int) -> list[tuple[int, int]]:
        size = self.size()
        return [(offset, size)] if offset < size else []  # holes are not modelled

    def forget_cache(self) -> None:
        self._check_usable()
        self._inode.forget_cache()

    def try_lock(self) -> bool:
        self._check_usable()
        if self._inode.lock_holder is None:
            self._inode.lock_holder = self
        return self._inode.lock_holder is self

    @property
    def shown_path(self) -> str:
        """The path by which it was opened, with the suffix that Linux shows for a removed file."""
        return self.path if self._inode.links else f"{self.path} (deleted)"

    def close(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._on_close(self)
        inode = self._inode
        if inode.lock_holder is self:
            inode.lock_holder = None
        inode.open_files -= 1
        if not inode.open_files and not inode.links:
            self._device.release(inode)

    def _check_usable(self) -> None:
        self._device.check_alive(self.path)
        if not self.is_open:
            raise posix_error(errno.EBADF, self.path)

    def _begin_change(self) -> bool:
        """Count and charge a change of the size; return whether the power fails in it."""
        device = self._device
        device.counters.operations += 1
        device.calls.changed()
        self._check_usable()
        device.charge(device.options.call_ns)
        return device.is_cut_due()

    def _draw_short(self, room: int) -> int:
        """Draw how many of `room` free bytes a short write fills: all of them, none, or some blocks.

        Linux reserves space for one or several folios at once, and returns all of it if they do not fit.
        """
        random = self._device.random
        choice = draw_below(random, 3) if room > 0 else 1
        if choice == 2:
            return draw_below(random, room // BLOCK_SIZE + 1) * BLOCK_SIZE
        return 0 if choice else room

    def _write(self, data: bytes, offset: int) -> None:
        """Put `data` into the page cache; the caller has reserved its blocks."""
        device, inode = self._device, self._inode
        size = len(data)
        if not size:
            return
        now_ns = device.now_ns()
        inode.cached.write(data, offset)
        if inode.unwritable:
            for start, end in inode.writable_parts(offset, offset + size):
                part = data[start - offset : end - offset]
                inode.changes.append(Change(ChangeKind.WRITE, start, part, now_ns))
                inode.dirty_bytes += end - start
        else:
            inode.changes.append(Change(ChangeKind.WRITE, offset, data, now_ns))
            inode.dirty_bytes += size
        inode.modified_ns = now_ns
        device.counters.bytes_written += size

    def _allocate(self, size: int) -> None:
        self._device.reserve(self._inode, size)
        if size > self._inode.cached.size:
            self._resize(ChangeKind.EXTEND, size)

    def _truncate(self, size: int) -> None:
        self._inode.cut_unwritable(size)
        self._resize(ChangeKind.TRUNCATE, size)
        self._device.release(self._inode, size)

    def _resize(self, kind: ChangeKind, size: int) -> None:
        inode = self._inode
        change = Change(kind, size, made_ns=self._device.now_ns())
        inode.cached.apply(change)
        inode.changes.append(change)
        inode.modified_ns = change.made_ns

    def _check_write_faults(self, data: bytes, offset: int) -> None:
        device = self._device
        is_cut = device.is_cut_due()
        if not is_cut and not device.take_write_failure():
            return
        arrived = tear_offset(offset, len(data), device.random)
        room = device.reserve(self._inode, offset + arrived)
        self._write(data[: max(0, min(arrived, room - offset))], offset)
        if is_cut:
            device.strike()
        raise posix_error(errno.EIO, self.path)

    def _check_sync_faults(self) -> None:
        device = self._device
        if device.is_cut_due_in_sync():
            device.strike()
        if device.take_sync_failure():
            self._fail_sync()
            raise posix_error(errno.EIO, self.path)

    def _charge_sync(self) -> int:
        """Charge a sync that begins now; return the time at which it ends."""
        device, inode, options = self._device, self._inode, self._device.options
        inode.settle(device.world_ns())
        cost_ns = options.fsync_ns + int(inode.waiting_bytes * options.durable_byte_ns)
        return device.charge_device(cost_ns)

    def _fail_sync(self) -> None:
        """Fail a sync: the device takes none or some of the blocks, in any order, but never all."""
        device, inode = self._device, self._inode
        begin_ns = device.now_ns()
        end_ns = self._charge_sync()
        failed = self._draw_failed(inode.waiting_blocks())
        keep_cache = device.options.failed_sync_keeps_cache
        device.counters.bytes_lost += inode.drop_dirty_pages(failed, keep_cache=keep_cache)
        inode.begin_sync(begin_ns, end_ns)
        inode.sync_failures += 1
        self._failures_heard = inode.sync_failures

    def _draw_failed(self, blocks: list[int]) -> set[int]:
        """Draw the blocks that the device does not take: at least one."""
        random = self._device.random
        failed = set(blocks)
        if random.random() < 0.5:
            failed = {block for block in blocks if random.random() < 0.5}
            failed.add(blocks[draw_below(random, len(blocks))] if blocks else 0)
        return failed

    # --- faults while a sync is in flight -----------------------------------------------------------

    def fail_sync(self, begin_ns: int, end_ns: int) -> None:
        """Implements `SyncTarget`."""
        device, inode = self._device, self._inode
        inode.settle(device.world_ns())
        failed = self._draw_failed(inode.covered_blocks(begin_ns, end_ns))
        keep_cache = device.options.failed_sync_keeps_cache
        device.counters.bytes_lost += inode.fail_sync(
            begin_ns, end_ns, failed, keep_cache=keep_cache
        )

    def cancel_sync(self, begin_ns: int, end_ns: int) -> None:
        """Implements `SyncTarget`."""
        self._inode.cancel_sync(begin_ns, end_ns)

    def move_sync(self, begin_ns: int, end_ns: int, new_begin_ns: int, new_end_ns: int) -> None:
        """Implements `SyncTarget`."""
        self._inode.move_sync(begin_ns, end_ns, new_begin_ns, new_end_ns)

    def _is_replayed(self) -> bool:
        """Whether a job that runs again has made this sync before. Raises EIO if that sync failed."""
        fails = self._device.replay_sync()
        if fails:
            self._inode.settle(self._device.world_ns())
            self._failures_heard = self._inode.sync_failures
            raise posix_error(errno.EIO, self.path)
        return fails is not None
