"""Harms the disk of a closed store: removes files that the log can replace, or damages records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from staticfire.harness.simulation.disk.disk import SimDisk
from staticfire.harness.store_crash.check import StoreComparison
from staticfire.harness.store_crash.model import LogModel, PromiseBroken, PutRecord, QueueKey
from staticfire.harness.store_crash.plan import QUEUES, ROOT
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.reading.reading import GetStatus

DAMAGED_MAX = 3
# positions in a record: size, magic, checksum; physical offset
_PROTECTED = (*range(12), *range(28, 36))
_KNOWN = (*range(8), *range(28, 36))  # without the checksum: fields that follow from the neighbours
_BATCH = 32
WALKED_FILES = 3  # log files that a start reads (RocketMQ: CommitLog.recoverNormally)


@dataclass(slots=True, kw_only=True)
class Harm:
    """The harm that was done: paths of lost files, and damaged records by physical offset."""

    lost: list[str] = field(default_factory=list)
    damaged: dict[int, PutRecord] = field(default_factory=dict)


class StoreHarm:
    """Harms the disk of one cycle while no store is open, and checks how the next store deals with it."""

    def __init__(
        self,
        disk: SimDisk,
        model: LogModel,
        comparison: StoreComparison,
        log_file_size: int,
        draw: Callable[[int], int],
    ) -> None:
        self._disk = disk
        self._model = model
        self._comparison = comparison
        self._log_file_size = log_file_size
        self._draw = draw

    def lose_files(self) -> Harm:
        """Remove some files that a start must be able to make again: queues, index files, the checkpoint."""
        harm = Harm()
        walked = self._walked_queues()
        for queue in QUEUES:
            if self._draw(2) and queue in walked:
                harm.lost += self._lose(f"{ROOT}/consumequeue/{queue[0]}/{queue[1]}", share=1)
        if self._draw(2):
            harm.lost += self._lose(f"{ROOT}/index", share=1 + self._draw(3))
        if self._draw(3) == 0:
            self._disk.unlink(f"{ROOT}/checkpoint")
            self._disk.fsync_dir(ROOT)
            harm.lost.append(f"{ROOT}/checkpoint")
        return harm

    def _walked_queues(self) -> set[QueueKey]:
        """Return the queues with a message in the files that a start reads after a clean close.

        If the files of another queue are missing, a start cannot know that the queue had any message.
        """
        kept = self._model.kept
        bases = sorted({put.physical_offset // self._log_file_size for put in kept})
        from_base = bases[-1] - WALKED_FILES + 1 if bases else 0
        return {
            put.queue for put in kept if put.physical_offset // self._log_file_size >= from_base
        }

    def _lose(self, folder: str, *, share: int) -> list[str]:
        """Remove each file of the folder with a probability of 1 / `share`; return their paths."""
        paths = [f"{folder}/{name}" for name in sorted(self._disk.listdir(folder))]
        lost = [path for path in paths if self._draw(share) == 0]
        for path in lost:
            self._disk.unlink(path)
        self._disk.fsync_dir(folder)
        return lost

    def damage_records(self) -> Harm:
        """Flip a bit in some records, in fields or a body that their checksum, their position or their entry covers."""
        harm = Harm()
        candidates = [put for put in self._model.kept if put.forged_at is None]
        for _ in range(1 + self._draw(DAMAGED_MAX) if candidates else 0):
            put = candidates[self._draw(len(candidates))]
            if put.physical_offset not in harm.damaged and self._leaves_key(harm, put):
                body = put.parsed.body
                positions = (*_PROTECTED, *body) if body and self._draw(2) else _PROTECTED
                self._flip(put, positions[self._draw(len(positions))])
                harm.damaged[put.physical_offset] = put
        return harm

    def damage_without_entry(self) -> Harm:
        """Damage one record, and remove the queue whose entry pointed to it.

        Its neighbours in the log, or the next message of its queue, still show where it belongs. Later entries of
        another queue show that it was durable.
        """
        harm = Harm()
        walked = self._walked_queues()
        candidates = [
            put for put in self._placeable() if put.queue in walked and self._leaves_key(harm, put)
        ]
        if not candidates:
            return self.damage_records()
        put = candidates[self._draw(len(candidates))]
        self._flip(put, _KNOWN[self._draw(len(_KNOWN))])
        if self._draw(2) and (body := put.parsed.body):
            self._flip(put, body[self._draw(len(body))])
            put.may_lack_tags = True
        harm.damaged[put.physical_offset] = put
        topic, queue_id = put.queue
        harm.lost += self._lose(f"{ROOT}/consumequeue/{topic}/{queue_id}", share=1)
        return harm

    def _leaves_key(self, harm: Harm, put: PutRecord) -> bool:
        """Whether another sound record has a key, by which a start recognises the index as that of this log."""
        others = (other for other in self._model.kept if other is not put and other.keys)
        return any(other.physical_offset not in harm.damaged for other in others)

    def _placeable(self) -> Iterator[PutRecord]:
        """Yield records between two of their queue, before one of another, and followed by one in their file."""
        kept = self._model.kept
        seen: set[QueueKey] = set()
        for number, put in enumerate(kept):
            later = {other.queue for other in kept[number + 1 :]}
            if (
                put.queue in seen
                and put.queue in later
                and len(later) > 1
                and put.end_offset == kept[number + 1].physical_offset
                and put.forged_at is None
            ):
                yield put
            seen.add(put.queue)

    def _flip(self, put: PutRecord, position: int) -> None:
        path = self._comparison.log_path(put.physical_offset)
        at = self._comparison.position_in_file(put.physical_offset) + position
        put.was_damaged = True
        assert self._disk.flip_bit(path, within=(at, at + 1)) == at

    # --- the store after its next start -----------------------------------------------------------------------------

    def mend(self, store: MessageStore, harm: Harm) -> None:
        """Pull all queues, and mend each record that turns out to be damaged.

        Raises PromiseBroken if anything else is missing, or if the store returns a damaged record.
        """
        met: set[int] = set()
        for queue in QUEUES:
            puts = [put for put in self._model.kept if put.queue == queue]
            first = self._model.first(queue)
            done = 0
            while done < len(puts):
                answer = store.get(*queue, first + done, _BATCH)
                put = puts[done]
                if answer.status is GetStatus.FOUND and answer.records:
                    if answer.records != [put.raw for put in puts[done:]][: len(answer.records)]:
                        raise PromiseBroken(f"{queue} gives a damaged record")
                    done += len(answer.records)
                elif (
                    answer.status is GetStatus.RECORD_DAMAGED
                    # a mended record must be sound
                    and put.physical_offset in harm.damaged.keys() - met
                ):
                    met.add(put.physical_offset)
                    self._mend(store, put, first + done)
                else:
                    raise PromiseBroken(f"{queue} offset {first + done} answers {answer.status}")
        if met != harm.damaged.keys():
            raise PromiseBroken(
                f"records at {sorted(harm.damaged)} are damaged, at {sorted(met)} they were met"
            )

    def _mend(self, store: MessageStore, put: PutRecord, queue_offset: int) -> None:
        """Give the store a sound copy.

        In half of the cases the store has given the record up before, so that pulls pass it.
        """
        if self._draw(2):
            store.give_up(put.physical_offset)
            answer = store.get(*put.queue, queue_offset, _BATCH)
            damaged = self._comparison.read_log(put.physical_offset, put.size)
            if answer.next_offset <= queue_offset or damaged in answer.records:
                raise PromiseBroken(
                    f"the record at {put.physical_offset} was given up, and {put.queue} answers {answer.status}"
                )
        if not store.mend_record(put.physical_offset, put.raw):
            raise PromiseBroken(f"a copy of the damaged record at {put.physical_offset} is refused")
