"""The device under a simulated disk: its speed, its space, its power, and its injected faults."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random
from typing import NoReturn, Protocol

from staticfire.harness.simulation.disk.calls import Call, CallsInFlight, stretched
from staticfire.harness.simulation.disk.inode import BLOCK_SIZE, Inode, whole_blocks
from staticfire.harness.simulation.disk.namespace import posix_error
from staticfire.harness.simulation.disk.options import DiskCounters, DiskOptions, Dropped, Incident

INCIDENTS_MAX = 1000  # recorded incidents of one disk
SLOW_MAX = 400.0  # the largest factor for calls that `heal` cannot release early


class PowerCut(BaseException):
    """The power failed inside a disk call. Not an Exception: no handler of the node may swallow it."""


class DiskWatcher(Protocol):
    """A callback inside disk calls. It must not call the disk."""

    def wrote(self, path: str, data: bytes) -> None:
        """Note that data was written to the page cache."""
        ...

    def syncing(self, path: str) -> None:
        """Note that a sync of the file begins."""
        ...


class DiskDevice:
    """Charges costs, hands out blocks and decides which call fails.

    `now_ns` is the caller's time, and `charge(ns)` delays the caller. `world_ns` is the time of all other processes; a
    delayed caller is ahead of it. When a chosen cut (`cut_at`, `cut_at_sync`, `cut_at_name`) strikes, the device calls
    `on_power_cut()` inside the disk call, then raises PowerCut; every call raises PowerCut from then to `power_on`.
    `caller()` returns the executor job that runs now, None on the loop's own thread.
    """

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
    ) -> None:
        self.random = random
        self.now_ns = now_ns
        self.world_ns = world_ns or now_ns
        self.charge = charge
        self.options = options or DiskOptions()
        self.counters = DiskCounters()
        self.incidents: list[Incident] = []
        self.restricted = False  # whether each call must be checked for faults
        self.is_powered = True
        self.is_destroyed = False
        self.on_power_cut = on_power_cut
        self.calls = CallsInFlight(caller or _no_caller)
        self.watchers: list[DiskWatcher] = []
        self._allocated_bytes = 0
        self._filler_bytes = 0
        self._free_at_ns = 0  # when the device has finished all queued work
        self._slow_factor = 1.0
        self._cut_operation: int | None = None
        self._cut_sync: int | None = None
        self._cut_change: int | None = None  # changes of names up to the cut
        self._write_failures = 0
        self._sync_failures = 0

    # --- faults ---------------------------------------------------------------------------------------------------

    def fill(self, free_bytes: int = 0) -> None:
        """Fill the disk with other data, except for `free_bytes`."""
        self._filler_bytes = 0
        self._filler_bytes = max(0, self.free_bytes - free_bytes)

    @property
    def is_filled(self) -> bool:
        """Whether other data takes space."""
        return self._filler_bytes > 0

    def free(self) -> None:
        """Free the space that `fill` took."""
        self._filler_bytes = 0

    def fail_write(self, count: int = 1) -> None:
        """Make the next `count` writes raise EIO; a part of each may arrive."""
        self._write_failures = count
        self._update_restricted()

    def fail_fsync(self, count: int = 1) -> None:
        """Make `count` syncs raise EIO at their end, those in flight first; the file's dirty pages are dropped."""
        hit = self.calls.fail(count, self.world_ns())
        self.counters.sync_errors += hit
        if hit:
            self.note("sync error")
        self._sync_failures = count - hit
        self._update_restricted()

    def slow(self, factor: float) -> None:
        """Make every sync take `factor` times as long, including the rest of those in flight.

        A factor above SLOW_MAX is a stall. It holds only calls that `heal` can release; other calls take SLOW_MAX times
        as long.
        """
        now_ns = self.world_ns()
        added_ns = self.calls.stretch(factor / self._slow_factor, now_ns)
        self.counters.slow_ns += max(added_ns, 0)
        ratio = min(factor, SLOW_MAX) / min(self._slow_factor, SLOW_MAX)
        self._free_at_ns = stretched(self._free_at_ns, ratio, now_ns)
        self._slow_factor = factor

    @property
    def is_slow(self) -> bool:
        """Whether `slow` is in effect."""
        return self._slow_factor > 1.0

    def cut_at(self, operation: int) -> None:
        """Cut the power inside the `operation`-th changing call from now (1 is the next one)."""
        if operation < 1:
            raise ValueError(f"cut_at({operation}): operations count from 1")
        self._cut_operation = self.counters.operations + operation
        self._update_restricted()

    def cut_at_sync(self, sync: int) -> None:
        """Cut the power inside the `sync`-th sync from now (1 is the next one), while its data is not yet durable."""
        if sync < 1:
            raise ValueError(f"cut_at_sync({sync}): syncs count from 1")
        self._cut_sync = self.counters.syncs + sync
        self._update_restricted()

    def cut_at_name(self, change: int) -> None:
        """Cut the power before or after the `change`-th change of a name from now (1 is the next one)."""
        if change < 1:
            raise ValueError(f"cut_at_name({change}): changes count from 1")
        self._cut_change = change
        self._update_restricted()

    def cancel_cut(self) -> None:
        """Cancel the cut that was chosen, if it has not struck."""
        self._cut_operation = self._cut_sync = self._cut_change = None
        self._update_restricted()

    def destroy(self) -> None:
        """Destroy the disk for good: from now on every call raises EIO."""
        self.is_destroyed = True
        self._update_restricted()

    def heal(self) -> None:
        """End every fault that can end; a destroyed disk stays destroyed."""
        self._filler_bytes = 0
        self.slow(1.0)
        self._write_failures = self._sync_failures = 0
        self.cancel_cut()

    # --- for SimFile and SimDisk ----------------------------------------------------------------------------------

    @property
    def free_bytes(self) -> int:
        return max(0, self.options.total_bytes - self._allocated_bytes - self._filler_bytes)

    def charge_device(self, cost_ns: int) -> int:
        """Queue work at the device and charge the caller until it is done.

        Returns the time at which the work is done, which is the caller's new time.
        """
        now_ns = self.now_ns()
        self.write_back(self.world_ns())
        self.charge(self.occupy(now_ns, cost_ns) - now_ns)
        return self.now_ns()

    def occupy(self, now_ns: int, cost_ns: int) -> int:
        """Queue work of `cost_ns` at the device; return the time at which it is done."""
        is_held = self._slow_factor > SLOW_MAX and self.calls.can_be_held()
        factor = self._slow_factor if is_held else min(self._slow_factor, SLOW_MAX)
        slow_ns = int(cost_ns * (factor - 1.0))
        self.counters.slow_ns += slow_ns
        done_ns = max(now_ns, self._free_at_ns) + cost_ns + slow_ns
        if not is_held:  # other work does not queue behind a stalled call
            self._free_at_ns = done_ns
        return done_ns

    def write_back(self, now_ns: int) -> None:
        """Start the kernel's write-back of old dirty pages up to `now_ns`; the file system implements it."""

    def reserve(self, inode: Inode, end: int) -> int:
        """Reserve blocks up to byte `end` of the file, or as many as are free; return the bytes reserved in all."""
        missing = whole_blocks(end) - inode.allocated_bytes
        if missing > 0:
            granted = min(missing, self.free_bytes // BLOCK_SIZE * BLOCK_SIZE)
            inode.allocated_bytes += granted
            self._allocated_bytes += granted
        return inode.allocated_bytes

    def can_reserve(self, inode: Inode, end: int) -> bool:
        return whole_blocks(end) - inode.allocated_bytes <= self.free_bytes

    def release(self, inode: Inode, size: int = 0) -> None:
        """Give back the blocks of `inode` beyond byte `size`."""
        surplus = inode.allocated_bytes - whole_blocks(size)
        if surplus > 0:
            inode.allocated_bytes -= surplus
            self._allocated_bytes -= surplus

    def no_space(self, path: str) -> OSError:
        self.counters.no_space_errors += 1
        self.note("no space")
        return posix_error(errno.ENOSPC, path)

    def check_alive(self, path: str) -> None:
        """Raise PowerCut if the disk has no power, and EIO if it is destroyed."""
        if not self.is_powered:
            raise PowerCut
        if self.is_destroyed:
            self.counters.dead_disk_errors += 1
            raise posix_error(errno.EIO, path)

    def is_cut_due(self) -> bool:
        """Whether the operation just counted is the one that `cut_at` chose."""
        return self._cut_operation is not None and self.counters.operations >= self._cut_operation

    def is_cut_due_in_sync(self) -> bool:
        """Whether the sync about to begin is the operation or the sync that a cut chose."""
        return self.is_cut_due() or (
            self._cut_sync is not None and self.counters.syncs + 1 >= self._cut_sync
        )

    def is_cut_due_in_name(self) -> bool:
        """Whether the change of a name just counted is the operation or the change that a cut chose."""
        if self._cut_change is None:
            return self.is_cut_due()
        self._cut_change -= 1
        return self._cut_change == 0 or self.is_cut_due()

    def strike(self) -> NoReturn:
        """Cut the power now, as `cut_at`, `cut_at_sync` or `cut_at_name` chose."""
        self.is_powered = False
        self.cancel_cut()
        if self.on_power_cut is not None:
            self.on_power_cut()
        raise PowerCut

    def take_write_failure(self) -> bool:
        """Use up one failure of `fail_write`, if there is one."""
        if not self._write_failures:
            return False
        self._write_failures -= 1
        self.counters.write_errors += 1
        self.note("write error")
        self._update_restricted()
        return True

    def take_sync_failure(self) -> bool:
        """Use up one failure of `fail_fsync`, if there is one."""
        if not self._sync_failures:
            return False
        self._sync_failures -= 1
        self.counters.sync_errors += 1
        self.note("sync error")
        self._update_restricted()
        return True

    def note(self, what: str, dropped: tuple[Dropped, ...] = ()) -> None:
        """Record an incident; those above INCIDENTS_MAX are dropped."""
        if len(self.incidents) < INCIDENTS_MAX:
            self.incidents.append(Incident(self.now_ns(), what, dropped))

    def replay_sync(self) -> bool | None:
        """Whether this sync of a job that runs again was decided to fail; None for a sync without a decision."""
        fails = self.calls.replay()
        self._update_restricted()
        return fails

    def _update_restricted(self) -> None:
        self.restricted = (
            not self.is_powered
            or self.is_destroyed
            or self._cut_operation is not None
            or self._cut_sync is not None
            or self._cut_change is not None
            or self._write_failures > 0
            or self._sync_failures > 0
            or self.calls.has_replays
        )


def _no_caller() -> None:
    """Return None: without a `caller`, no call belongs to an executor job."""
