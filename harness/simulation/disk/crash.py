"""Decides what is left of a file's changes that were not durable when the power failed.

POSIX promises nothing about them, so every outcome that a drive and a file system can produce must be possible: nothing
arrived; everything arrived; a prefix arrived, in order, with its last write torn; or each sector holds a version of its
own, as after write-back in any order. Sectors of 512 bytes are atomic, as drives promise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from random import Random
from typing import NamedTuple

from staticfire.harness.simulation.disk.inode import Change, ChangeKind, Content, Inode

SECTOR_SIZE = 512


class Survival(IntEnum):
    """The fate of one file's unsynced changes in a power cut."""

    NOTHING = 0
    EVERYTHING = 1
    PREFIX = 2
    SECTORS = 3


class Loss(NamedTuple):
    """The losses of one file: bytes of unsynced writes, and sectors that hold an older version."""

    bytes_lost: int
    sectors_torn: int
    dropped: tuple[
        tuple[int, int], ...
    ] = ()  # (start, end) of bytes that differ from what was written


def draw_below(random: Random, bound: int) -> int:
    """Draw a whole number in 0..bound-1 by exact arithmetic, which is the same on every platform."""
    return int(random.random() * bound)


def lose_power(inode: Inode, random: Random, now_ns: int) -> Loss:
    """Cut the power on `inode`: set its durable content and its cache to what a restart finds.

    Changes under a sync in flight are not better protected than others: any part of them may have arrived.
    """
    loss = Loss(0, 0)
    inode.settle(now_ns)
    has_undone = inode.undo_after(now_ns)
    if inode.changes:
        survival = Survival(draw_below(random, len(Survival)))
        written = _written(inode)
        loss = _SURVIVALS[survival](inode, random)
        loss = loss._replace(dropped=tuple(_differing(inode, written)))
    if inode.changes or has_undone or inode.is_cache_stale:
        inode.cached = inode.durable.copy()
    inode.is_cache_stale = False
    inode.unwritable.clear()
    inode.changes.clear()
    inode.in_flight.clear()
    inode.dirty_bytes = 0
    return loss


def _written(inode: Inode) -> Content:
    """Return the content with all of its changes."""
    content = inode.durable.copy()
    for change in inode.changes:
        content.apply(change)
    return content


def _differing(inode: Inode, written: Content) -> Iterator[tuple[int, int]]:
    """Return ranges of the writes that differ from the platter, sector by sector, with neighbours joined."""
    sectors = sorted(
        {
            sector
            for change in inode.changes
            if change.kind == ChangeKind.WRITE and change.data
            for sector in range(
                change.at // SECTOR_SIZE, (change.at + len(change.data) - 1) // SECTOR_SIZE + 1
            )
        }
    )
    begin = end = -1
    for sector in sectors:
        at = sector * SECTOR_SIZE
        wanted = written.read(SECTOR_SIZE, at)
        # a hole reads as zeros
        kept = inode.durable.read(SECTOR_SIZE, at).ljust(len(wanted), b"\0")
        pairs = enumerate(zip(wanted, kept, strict=False))
        first = next((n for n, (byte, left) in pairs if byte != left), None)
        if first is None:
            continue
        if at != end:
            if begin >= 0:
                yield begin, end
            begin = at + first
        end = at + len(wanted)
    if begin >= 0:
        yield begin, end


def tear_offset(offset: int, size: int, random: Random) -> int:
    """Draw how many bytes of an interrupted write of `size` at `offset` arrive: up to a sector border."""
    first, last = offset // SECTOR_SIZE, (offset + size) // SECTOR_SIZE
    border = (first + draw_below(random, last - first + 1)) * SECTOR_SIZE
    return max(0, border - offset)


def _keep_nothing(inode: Inode, random: Random) -> Loss:
    del random
    return Loss(inode.dirty_bytes, 0)


def _keep_everything(inode: Inode, random: Random) -> Loss:
    del random
    for change in inode.changes:
        inode.durable.apply(change)
    return Loss(0, 0)


def _keep_prefix(inode: Inode, random: Random) -> Loss:
    kept = draw_below(random, len(inode.changes))
    arrived = 0
    for change in inode.changes[:kept]:
        inode.durable.apply(change)
        arrived += len(change.data)
    torn = inode.changes[kept]
    if torn.kind != ChangeKind.WRITE:
        return Loss(inode.dirty_bytes - arrived, 0)
    part = tear_offset(torn.at, len(torn.data), random)
    if part:
        inode.durable.write(torn.data[:part], torn.at)
    return Loss(inode.dirty_bytes - arrived - part, 1 if part else 0)


def _keep_sectors(inode: Inode, random: Random) -> Loss:
    """Keep a prefix of the size changes, which are journalled, and for each sector a version of its own."""
    changes, durable = inode.changes, inode.durable
    journalled = draw_below(random, len(changes) + 1)
    stops, torn = _draw_stops(changes, random)
    size = durable.size
    lost = 0
    for number, change in enumerate(changes):
        if change.kind == ChangeKind.WRITE:
            lost += _write_sectors(durable, change, number, stops)
            if number < journalled:
                size = max(size, change.at + len(change.data))
        elif number < journalled:
            durable.apply(change)
            size = change.at if change.kind == ChangeKind.TRUNCATE else max(size, change.at)
    durable.truncate(size)
    return Loss(lost, torn)


def _draw_stops(changes: list[Change], random: Random) -> tuple[dict[int, int], int]:
    """Draw for each written sector the last change that reached it (-1: none), and return the number of torn ones."""
    writers: dict[int, list[int]] = {}
    for number, change in enumerate(changes):
        if change.kind != ChangeKind.WRITE or not change.data:
            continue
        last = (change.at + len(change.data) - 1) // SECTOR_SIZE
        for sector in range(change.at // SECTOR_SIZE, last + 1):
            writers.setdefault(sector, [-1]).append(number)
    stops = {
        sector: numbers[draw_below(random, len(numbers))] for sector, numbers in writers.items()
    }
    torn = sum(stops[sector] != numbers[-1] for sector, numbers in writers.items())
    return stops, torn


def _write_sectors(durable: Content, change: Change, number: int, stops: dict[int, int]) -> int:
    """Write the parts of `change` that reached their sectors; return the number of bytes that did not arrive."""
    start, end = change.at, change.at + len(change.data)
    lost = 0
    position = start
    while position < end:
        sector = position // SECTOR_SIZE
        part_end = min(end, (sector + 1) * SECTOR_SIZE)
        if stops[sector] >= number:
            durable.write(change.data[position - start : part_end - start], position)
        else:
            lost += part_end - position
        position = part_end
    return lost


_SURVIVALS: dict[Survival, Callable[[Inode, Random], Loss]] = {
    Survival.NOTHING: _keep_nothing,
    Survival.EVERYTHING: _keep_everything,
    Survival.PREFIX: _keep_prefix,
    Survival.SECTORS: _keep_sectors,
}
