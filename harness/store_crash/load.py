"""The load of a storage crash cycle: puts, flushes, dispatches, truncations and deletions, each checked at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from staticfire.harness.simulation.disk.disk import SimDisk
from staticfire.harness.store_crash.answers import AnswerComparison
from staticfire.harness.store_crash.check import ENTRY_SIZE, StoreComparison
from staticfire.harness.store_crash.messages import MessageDraw
from staticfire.harness.store_crash.model import LogModel, PromiseBroken, QueueKey
from staticfire.harness.store_crash.plan import QUEUES, CycleClock, CycleCounts, CyclePlan
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.errors import StoreError
from staticfire.system_under_test.store.flush import FlushTask, QueueFlushTask
from staticfire.system_under_test.store.results import PutResult, PutStatus


class StoreLoad:
    """Puts load on a store, step by step.

    Args:
        store: the store of the present life; the cycle replaces it at each start.
        draw: returns a number below its argument.
        report: takes each event as a sentence.
    """

    def __init__(
        self,
        store: MessageStore,
        plan: CyclePlan,
        disk: SimDisk,
        clock: CycleClock,
        model: LogModel,
        messages: MessageDraw,
        comparison: StoreComparison,
        answers: AnswerComparison,
        counts: CycleCounts,
        draw: Callable[[int], int],
        report: Callable[[str], None],
    ) -> None:
        self.store = store
        self._plan = plan
        self._disk = disk
        self._clock = clock
        self._model = model
        self._messages = messages
        self._comparison = comparison
        self._answers = answers
        self._counts = counts
        self._draw = draw
        self._report = report

    def step(self) -> None:
        """Carry out one drawn step. Raises PromiseBroken, or OSError if the disk failed."""
        self._clock.now_ns += self._draw(50) * 1_000_000
        choice = self._draw(100)
        if choice < 62:
            self._put()
            if self._plan.pool and self._draw(8) == 0:
                self._commit()
        elif choice < 66:
            self._delete() if self._plan.deletes else self._put()
        elif choice < 80:
            self._flush()
        elif choice < 88:
            self._dispatch()
        elif choice < 95:
            self._flush_queues()
        elif choice < 97:
            self._clock.now_ns += 5_000_000_000  # longer than the checkpoint's margin of 3 s
            self._report("5 s pass")
        elif choice < 98:
            self._put_on_full_disk()
        elif choice < 99:
            self._truncate()
        else:
            self._clock.wall_offset_ms -= self._draw(20_000)
            self._report("the clock of the node steps back")

    def _commit(self) -> None:
        """Commit the transient store pool, as the broker's timer does."""
        self.store.commit()
        if self.store.failure is not None:
            raise OSError(str(self.store.failure))
        if self.store.readable_end < self._model.end_offset:
            raise PromiseBroken(f"committed only up to {self.store.readable_end}")
        self._counts.commits += 1
        self._report(f"commit of the pool up to {self.store.readable_end:,}")

    def _put(self, message: Message | None = None) -> None:
        """Put the message, or drawn ones."""
        if not (self._try_put() if message is None else self._try_message(message)):
            raise PromiseBroken("put was refused, though there is space")

    def _try_put(self) -> bool:
        """Put one message or a batch; return False if it was refused for lack of space.

        Raises OSError if the disk failed.
        """
        choice = self._draw(30)
        if choice == 0:
            self._put_too_large()
        if choice < 3:
            messages = self._messages.batch()
            return self._accept(messages, self._put_all(messages))
        forged_at = None
        if choice == 3:
            message, forged_at = self._messages.forged(self._model.end_offset)
        elif choice < 6:
            message = self._messages.filling_file(self._model.end_offset)
        else:
            message = self._messages.plain()
        return self._try_message(message, forged_at)

    def _try_message(self, message: Message, forged_at: int | None = None) -> bool:
        self._model.begin_put([message])
        return self._accept([message], [self.store.put(message)], forged_at)

    def _closing_queues(self) -> list[QueueKey]:
        """Return the queues whose next entry is the last one of a file."""
        entries = self._plan.queue_file_size // ENTRY_SIZE
        return [queue for queue in QUEUES if (self._model.count(queue) + 1) % entries == 0]

    def _put_all(self, messages: Sequence[Message]) -> Sequence[PutResult]:
        self._model.begin_put(messages)
        return self.store.put_batch(messages)

    def _accept(
        self,
        messages: Sequence[Message],
        results: Sequence[PutResult],
        forged_at: int | None = None,
    ) -> bool:
        if results[0].status is PutStatus.PUT_OK:
            for message, result in zip(messages, results, strict=True):
                put = self._model.accept_put(message, result)
                if forged_at is not None and put.physical_offset < forged_at < put.end_offset:
                    put.forged_at = forged_at
            self._model.end_put()
            self._counts.puts += len(messages)
            for message, result in zip(messages, results, strict=True):
                end = result.physical_offset + result.size_bytes
                where = f"{message.topic}/{message.queue_id} at {result.queue_offset}"
                self._report(
                    f"put to {where}: the log has it at {result.physical_offset:,} to {end:,}"
                )
            return True
        if self.store.failure is not None:
            raise OSError(results[0].reason)  # an unknown part of the record has been written
        self._model.end_put()
        self._counts.refused_puts += 1
        self._report("a put is refused, because the disk is full")
        return False

    def _put_too_large(self) -> None:
        result = self.store.put(self._messages.too_large())
        if result.status is PutStatus.PUT_OK:
            raise PromiseBroken(
                f"a record of {result.size_bytes} bytes was accepted; files have {self._plan.log_file_size}"
            )
        self._counts.too_large_puts += 1
        self._report("a put is refused, because its record is too large for a file")

    def _put_on_full_disk(self) -> None:
        free_bytes = self._draw(20_000)
        self._disk.fill(free_bytes=free_bytes)
        self._report(f"the disk has {free_bytes:,} free bytes left")
        for _ in range(self._draw(10)):
            self._try_put()
        self._flush()
        self._dispatch()
        self._disk.free()
        self._report("the disk has space again")
        self._put()

    def _flush(self) -> None:
        task = self.store.begin_flush()
        if task is None:
            return
        # The flush must not promise puts that come while it runs.
        self._interfere()
        self._run_flush(task)
        self._interfere()
        flushed_end = self.store.finish_flush(task)
        self._model.promise(flushed_end)
        self._counts.flushes += 1
        self._report(f"flush of the log up to {flushed_end:,}")

    def _dispatch(self) -> None:
        """Dispatch.

        No consumer may get a message, and commit an offset behind it, that a power cut may still remove.
        """
        self.store.dispatch()
        self._report(f"dispatch up to {self.store.dispatched_offset:,}")
        if self.store.dispatched_offset > self._model.promised_end:
            raise PromiseBroken(
                f"dispatched up to {self.store.dispatched_offset}, flushed up to {self._model.promised_end}"
            )

    def _flush_queues(self) -> None:
        task = self.store.begin_queue_flush()
        if task is None:
            return
        self._interfere()
        self._run_flush(task)
        self._interfere()
        self.store.finish_queue_flush(task)
        self._report("flush of the queues and the index")
        self._comparison.check_checkpoint()

    def _interfere(self) -> None:
        choice = self._draw(40)
        if choice < 8:
            self._try_put()
        elif choice < 12:
            self._dispatch()
        elif choice == 12:
            self._truncate()

    def _truncate(self) -> None:
        """Cut the log at some record, as a replica does whose tail differs from its master's."""
        puts = self._model.kept
        if not puts:
            return
        # then the first file stays, wherever the log is cut
        has_deleted = self._model.min_offset > 0
        number = (
            0 if self._draw(2 if has_deleted else 12) == 0 else -1 - self._draw(min(len(puts), 8))
        )
        offset = puts[number].physical_offset
        self._model.begin_truncate(offset)
        try:
            self.store.truncate(offset)
        except StoreError as error:
            if self.store.failure is None:
                raise
            raise OSError(str(error)) from error  # the write of buffered records failed
        self._model.finish_truncate(offset)
        self._report(f"the log is cut at {offset:,}, like that of a replica")
        self._comparison.check_checkpoint()
        self._counts.truncations += 1

    def _delete(self) -> None:
        """Delete old files, and in some cases make the last entry of a file of a queue the first one that must stay."""
        closing = self._closing_queues()
        if not closing or self._draw(2) == 0:
            self._delete_old(limit=self._draw(4))
            return
        queue = closing[self._draw(len(closing))]
        other = QUEUES[QUEUES.index(queue) - 1]
        self._put(self._messages.filling_file(self._model.end_offset, other))
        self._put(self._messages.small(queue))  # begins a file of the log
        self._put(self._messages.small(queue))  # begins a file of the queue
        self._flush()
        self._dispatch()
        self._delete_old(limit=100)

    def _delete_old(self, limit: int) -> None:
        """Delete up to `limit` + 1 old files, the oldest first. The process may die between any two."""
        self._flush_queues()
        for number, removal in enumerate(self.store.retention.clean()):
            self._model.begin_delete(self.store.min_offset)
            try:
                removal.run()
            except OSError as error:
                self.store.fail_flush(removal, error)
                raise
            self._model.finish_delete()
            self._counts.deletions += 1
            self._report("an old file is deleted")
            for queue in QUEUES:
                self._answers.check_first(queue, self.store)
            if number >= limit:
                break

    def _run_flush(self, task: FlushTask | QueueFlushTask) -> None:
        try:
            task.run()
        except OSError as error:
            self.store.fail_flush(task, error)
            raise
