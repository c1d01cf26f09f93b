"""One cycle of the storage crash test: a store on a small simulated disk lives, dies and is compared with its model.

A cycle is a series of moves, which the seed decides (`Cycle.run`) or a script lists (`Cycle.play`), and the moves are a
series of lives. In a life the store is opened, and puts, flushes and dispatches at seeded moments. The life ends with a
power cut inside a disk operation (also during recovery or a clean close), with a power cut between two operations, with
the death of the process (the page cache survives), or with a clean close. After each end the files and the answers of
the recovered store must agree with the model, and a second recovery must change nothing. Before the second recovery the
cycle may close the store, remove files that the log can replace, or damage records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum, auto
from random import Random

from staticfire.harness.simulation.disk.disk import DiskOptions, PowerCut, SimDisk
from staticfire.harness.store_crash.answers import AnswerComparison
from staticfire.harness.store_crash.check import StoreComparison
from staticfire.harness.store_crash.harm import Harm, StoreHarm
from staticfire.harness.store_crash.index_files import IndexShape
from staticfire.harness.store_crash.load import StoreLoad
from staticfire.harness.store_crash.messages import MessageDraw
from staticfire.harness.store_crash.model import LogModel, PromiseBroken
from staticfire.harness.store_crash.plan import (
    DEATHS,
    LOG_FILES_MIN,
    LOG_FOLDERS,
    NAME_CHANGES,
    PUTS_MIN,
    QUEUES,
    ROOT,
    CycleClock,
    CycleCounts,
    CyclePlan,
    Death,
    SilentLog,
)
from staticfire.harness.store_crash.script import Move, MoveKind, drawn_move
from staticfire.system_under_test.runtime.env import Storage
from staticfire.system_under_test.store.appending.config import StoreConfig
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.assembly.store_policy import (
    HARDENED_STORE,
    StorePolicy,
    make_rereading_dispatcher,
)
from staticfire.system_under_test.store.errors import StoreError
from staticfire.system_under_test.store.index.key_search import JAVA_SEARCH
from staticfire.system_under_test.store.reading.time_search import nearest_in_file
from staticfire.system_under_test.store.recovery.recovery import RecoveryReport
from staticfire.system_under_test.store.results import PutStatus
from staticfire.system_under_test.store.retention_config import RetentionConfig
from staticfire.system_under_test.store.transient_pool import PoolConfig

WrapStorage = Callable[[Storage], Storage]
INCOMPLETE_QUEUES = "consume queues are incomplete, rebuilding all"
NOT_OF_THIS_LOG = "the index does not fit the log, rebuilding it"
DISK_SEED = 0x5BD1E995  # the disk draws other numbers than the move
STABLE_EVERY = 4  # one of so many keys is checked again after the second recovery


class StoreState(Enum):
    """The state of the store between two moves."""

    DEAD = auto()  # a start comes next
    FRESH = auto()  # just started, and compared with the model
    OPEN = auto()
    ARMED = auto()  # open, and it is chosen how this life ends
    CLOSED = auto()
    BROKEN = auto()  # a cut or an error of the disk has struck


class Cycle:
    """Runs one cycle.

    Args:
        seed: decides everything that `run` does, and nothing in `play`.
        wrap: may put a faulty layer between store and disk, to prove that the test can fail.
        policy: the store's policy.
        plan: the parameters; by default drawn from the seed.
        on_event: takes each event of the cycle as a sentence.
    """

    def __init__(
        self,
        seed: int,
        *,
        wrap: WrapStorage | None = None,
        policy: StorePolicy = HARDENED_STORE,
        plan: CyclePlan | None = None,
        on_event: Callable[[str], None] | None = None,
    ) -> None:
        self._script_random = Random(f"storage crash {seed}")
        self.plan = plan or CyclePlan.draw(self._script_random)
        self.moves: list[Move] = []  # carried out so far
        self._on_event = on_event
        self._state = StoreState.DEAD
        self._death = Death.POWER_CUT
        self._errors_before = 0  # of the disk, when an error was chosen
        self._random, self._disk_random = Random(0), Random(0)  # of the present move
        self._policy = _with_rocketmq_reads(policy) if self.plan.rocketmq_reads else policy
        self.counts = CycleCounts(cycles=1)
        self._log = SilentLog()
        self._clock = CycleClock()
        self._disk = SimDisk(
            random=self._disk_random,
            now_ns=self._clock.monotonic_ns,
            charge=self._charge,
            options=DiskOptions(
                total_bytes=16 << 20,
                failed_sync_keeps_cache=self.plan.failed_sync_keeps_cache,
            ),
        )
        self._storage: Storage = wrap(self._disk) if wrap else self._disk
        self._model = LogModel(self.plan.log_file_size)
        self._comparison = StoreComparison(
            self._disk,
            self._model,
            log_file_size=self.plan.log_file_size,
            queue_file_size=self.plan.queue_file_size,
            index_shape=IndexShape(self.plan.index_slots, self.plan.index_numbers),
        )
        self._answers = AnswerComparison(
            self._model, self._draw, rocketmq_reads=self.plan.rocketmq_reads
        )
        self._harm = StoreHarm(
            self._disk, self._model, self._comparison, self.plan.log_file_size, self._draw
        )
        self._messages = MessageDraw(self.plan, self._clock, self._draw)
        self._store = self._new_store()
        self._load = StoreLoad(
            self._store,
            self.plan,
            self._disk,
            self._clock,
            self._model,
            self._messages,
            self._comparison,
            self._answers,
            self.counts,
            self._draw,
            self._report,
        )

    def run(self) -> CycleCounts:
        """Run the cycle of the seed.

        Raises PromiseBroken, and any error that the store raises although nothing but crashes happened.
        """
        for move in self._drawn_moves():
            self._carry_out(move)
        return self.counted()

    def play(self, moves: Iterable[Move]) -> CycleCounts:
        """Carry out the moves of a script; raises like `run`."""
        for move in moves:
            self._carry_out(move)
        return self.counted()

    def counted(self) -> CycleCounts:
        """Return the counters so far."""
        counters = self._disk.counters
        self.counts.bytes_lost = counters.bytes_lost
        self.counts.sectors_torn = counters.sectors_torn
        self.counts.entries_lost = counters.entries_lost
        self.counts.power_cuts = counters.power_cuts
        return self.counts

    # --- moves ----------------------------------------------------------------------------------------------------

    def _drawn_moves(self) -> Iterator[Move]:
        """Yield the moves of the seed; some depend on the state that the former ones have left."""
        yield from self._drawn_starts()
        for _ in range(self.plan.lives):
            yield from self._drawn_life()
            yield self._drawn(MoveKind.DIE)
            yield from self._drawn_starts()
            yield self._drawn(MoveKind.START_AGAIN)

    def _drawn_starts(self) -> Iterator[Move]:
        """Yield a start, in half of the cases after one that crashes, and in some after one that fails."""
        choice = self._draw_of_script(8)
        if choice < 4:
            yield self._drawn(MoveKind.BROKEN_START)
        elif choice == 4:
            yield self._drawn(MoveKind.FAILED_START)
        yield self._drawn(MoveKind.START)

    def _drawn_life(self) -> Iterator[Move]:
        """Yield work without a crash until there is data to lose, then work until the store dies."""
        target = PUTS_MIN if self._messages.count == 0 else self._draw_of_script(10)
        done_before = self._messages.count
        while self._messages.count - done_before < target or not self._has_enough():
            yield self._drawn(MoveKind.WORK)
        yield self._drawn(MoveKind.ARM)
        if self._death is Death.DISK_ERROR:
            while self._state is StoreState.ARMED:
                yield self._drawn(MoveKind.WORK)
            return
        for _ in range(5 + self._draw_of_script(25)):
            yield self._drawn(MoveKind.WORK)
            if self._state is not StoreState.ARMED:
                return
        if self._death is Death.CLEAN_CLOSE or self._draw_of_script(4) == 0:
            yield self._drawn(MoveKind.CLOSE)

    def _drawn(self, kind: MoveKind) -> Move:
        return drawn_move(self._script_random, kind)

    def _draw_of_script(self, bound: int) -> int:
        return int(self._script_random.random() * bound)

    def _carry_out(self, move: Move) -> None:
        """Carry out a move if the state of the store permits it."""
        needed, do = self._doers()[move.kind]
        if self._state not in needed:
            return
        self.moves.append(move)
        self._random.seed(move.seed)
        self._disk_random.seed(move.seed ^ DISK_SEED)
        do()

    def _doers(self) -> Mapping[MoveKind, tuple[tuple[StoreState, ...], Callable[[], None]]]:
        """Return the states in which a kind of move is possible, and the method that carries it out."""
        dead, fresh = (StoreState.DEAD,), (StoreState.FRESH,)
        unarmed = (StoreState.FRESH, StoreState.OPEN)
        is_open = (*unarmed, StoreState.ARMED)
        return {
            MoveKind.WORK: (is_open, self._work),
            MoveKind.ARM: (unarmed, self._arm),
            MoveKind.CLOSE: (is_open, self._close_in_life),
            MoveKind.DIE: ((*is_open, StoreState.CLOSED, StoreState.BROKEN), self._die),
            MoveKind.BROKEN_START: (dead, self._break_start),
            MoveKind.FAILED_START: (dead, self._fail_start),
            MoveKind.START: (dead, self._start),
            MoveKind.START_AGAIN: (fresh, self._start_again),
        }

    def _report(self, text: str) -> None:
        if self._on_event is not None:
            self._on_event(text)

    # --- lives and deaths -----------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Choose how this life ends. A cut or an error of the disk may strike during a later move."""
        self._state = StoreState.ARMED
        self._death = DEATHS[self._draw(len(DEATHS))]
        if self._death is Death.DISK_ERROR:
            if self._draw(2) == 0:
                self._disk.fail_write()
                self._report("the next write fails")
            else:
                self._disk.fail_fsync()
                self._report("the next sync fails")
            self._errors_before = self._count_errors()
        elif self._death in (Death.CUT_IN_OPERATION, Death.DEATH_IN_OPERATION):
            self._choose_cut(40)

    def _choose_cut(self, operations: int) -> None:
        """Choose one of the next `operations` for a cut, or one of the next few changes of names."""
        if self._draw(3) == 0:
            self._disk.cut_at_name(1 + self._draw(NAME_CHANGES))
        else:
            self._disk.cut_at(1 + self._draw(operations))

    def _work(self) -> None:
        if self._death is Death.DISK_ERROR and self._count_errors() > self._errors_before:
            raise PromiseBroken("the store goes on after a failed write or sync")
        if self._state is StoreState.FRESH:
            self._state = StoreState.OPEN
        self._suffer(self._load.step)

    def _close_in_life(self) -> None:
        if self._death is Death.DISK_ERROR:  # that life ends with the error
            return
        self._suffer(self._close)
        if self._state is not StoreState.BROKEN:
            self._state = StoreState.CLOSED

    def _suffer(self, do: Callable[[], None]) -> None:
        """Do something that the chosen cut or error of the disk may strike."""
        try:
            do()
        except PowerCut:
            self._state = StoreState.BROKEN
            self._report("the cut strikes in this step")
        except OSError:
            if self._death is not Death.DISK_ERROR:
                raise
            self.counts.disk_errors += 1
            self._state = StoreState.BROKEN
            self._report("the disk fails in this step")
        else:
            if self._store.failure is not None and self._death is Death.DISK_ERROR:
                self.counts.disk_errors += 1
                self._state = StoreState.BROKEN
                self._report("the disk fails in this step")

    def _die(self) -> None:
        """End the life in the chosen way; an error of the disk ends the process, as it must end a broker."""
        death, self._death = self._death, Death.POWER_CUT
        if death is Death.DISK_ERROR:
            self._end_by_disk_error()
        elif death in (Death.PROCESS_DEATH, Death.DEATH_IN_OPERATION):
            self._restart_disk()
            self._end_process()
        else:
            self._cut_power()
        self._state = StoreState.DEAD

    def _end_by_disk_error(self) -> None:
        """End the process, and check that the store refuses puts: only a new start knows what is on the disk."""
        has_failed = self._state is StoreState.BROKEN
        self._disk.heal()
        if not has_failed:  # a script has too few moves for the error
            self._end_process()
            return
        result = self._store.put(self._messages.plain())
        if result.status is PutStatus.PUT_OK:
            raise PromiseBroken("a put was accepted after a failed write or sync")
        if self._draw(2) == 0:
            self._store.close()  # must not count as a clean close
        self._disk.release_locks()
        self.counts.process_deaths += 1
        self._report("the process ends itself")
        if self._draw(2) == 0:
            self._cut_power()

    def _count_errors(self) -> int:
        return self._disk.counters.write_errors + self._disk.counters.sync_errors

    def _has_enough(self) -> bool:
        return (
            self._model.end_offset > (LOG_FILES_MIN - 1) * self.plan.log_file_size
            and all(self._model.count(queue) for queue in QUEUES)
            and self.counts.flushes > 0
        )

    def _end_process(self) -> None:
        if self.plan.pool:
            # later puts were never acknowledged
            self._model.promise_cached(self._store.readable_end)
        elif not self.plan.sync_flush:
            # a put is in the page cache when it returns
            self._model.promise_cached(self._model.end_offset)
        self._disk.release_locks()
        self.counts.process_deaths += 1
        self._report("the process dies")

    def _cut_power(self) -> None:
        report = self._disk.power_cut()
        self._model.lose_cache()
        self._restart_disk()
        dropped = ", ".join(
            f"{one.start:,} to {one.end:,} of {one.path}"
            for one in report.dropped
            if not one.path.endswith("lock")
        )
        self._report("the power fails" + (f" and drops {dropped}" if dropped else ""))

    def _restart_disk(self) -> None:
        self._disk.heal()  # cancels a cut that has not struck, and frees a full disk
        self._disk.power_on()

    def _close(self) -> None:
        self._store.close()
        self._comparison.check_index_files()
        self._model.promise(self._model.end_offset)
        self.counts.clean_closes += 1
        self._report("the store is closed")

    # --- recovery -------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Open the store, and compare it with the model."""
        report = self._open()
        self._state = StoreState.FRESH
        self._report(f"start: the log has {self._store.min_offset:,} to {self._store.end_offset:,}")
        self._check_report(report, Harm())
        self._compare()

    def _break_start(self) -> None:
        """Let the power fail, or the process die, inside a start."""
        self._choose_cut(30)
        struck = False
        try:
            self._open()
        except PowerCut:
            self.counts.cuts_in_recovery += 1
            struck = True
        self._report("a start is interrupted" if struck else "a start succeeds")
        if self._draw(3) == 0:
            self._restart_disk()
            self._disk.release_locks()
            self.counts.process_deaths += 1
            self._report("the process dies")
        else:
            self._cut_power()

    def _open(self) -> RecoveryReport:
        """Open the store. What recovery found must survive from then on, even a power cut right after it."""
        self._store = self._load.store = self._new_store()
        self._log.warnings.clear()
        report = self._store.open()
        self.counts.recoveries += 1
        self.counts.puts_lost += self._model.settle(
            self._store.min_offset, self._store.end_offset, self._comparison.read_log
        )
        return report

    def _fail_start(self) -> None:
        """Let a write or sync of a start fail.

        The failed start must close all files, and the next start must succeed.
        """
        if self._draw(2) == 0:
            self._disk.fail_write()
        else:
            self._disk.fail_fsync()
        self._model.lose_cache()  # a failed sync may drop dirty pages
        try:
            self._open()
        except StoreError:
            self.counts.failed_starts += 1
            self._report("a start fails, because a write or sync of it fails")
            if paths := self._disk.open_paths():
                raise PromiseBroken(f"a start that failed keeps {paths[0]} open") from None
        else:
            self._report("a start succeeds")
        self._disk.heal()
        self._disk.release_locks()

    def _compare(self, every: int = 1) -> None:
        self._store.dispatch()
        self._comparison.check(self._store)
        for queue in QUEUES:
            self._answers.check_queue(queue, self._store)
        self._answers.check_keys(self._store, every)
        self._answers.check_look_ups(self._store)
        self._answers.check_times(self._store, self._comparison.queue_files)

    def _start_again(self) -> None:
        """Check that a second recovery changes nothing.

        Before it the process dies, or the store is closed and may be harmed.
        """
        self._state = StoreState.OPEN
        first = self._comparison.files()
        harm = Harm()
        choice = self._draw(8)
        if choice < 4:
            self._disk.release_locks()
            self.counts.process_deaths += 1
            self._report("the process dies")
        else:
            self._close()
            if choice == 5:
                harm = self._harm.lose_files()
            elif choice == 6:
                harm = self._harm.damage_records()
            elif choice == 7:
                harm = self._harm.damage_without_entry()
            self.counts.files_lost += len(harm.lost)
            self.counts.records_damaged += len(harm.damaged)
            for path in harm.lost:
                self._report(f"the file {path} is lost")
            for offset in harm.damaged:
                self._report(f"the record at {offset:,} is damaged")
        self._store = self._load.store = self._new_store()
        report = self._store.open()
        self._report(f"start: the log has {self._store.min_offset:,} to {self._store.end_offset:,}")
        self._store.dispatch()
        self._check_report(report, harm)
        if report.cut_bytes:
            raise PromiseBroken(f"a second recovery cut {report.cut_bytes} bytes")
        self._harm.mend(self._store, harm)
        self._compare(every=STABLE_EVERY)
        changed = self._comparison.changed_since(first)
        if changed and not harm.lost:
            raise PromiseBroken(f"a second recovery changed {changed[0]}")
        if harm.lost:  # the index files made again must be the right ones
            self._close()
            self._store = self._load.store = self._new_store()
            self._store.open()
            self._report("start")

    def _check_report(self, report: RecoveryReport, harm: Harm) -> None:
        """Check that a start reports the harm that was done, and nothing else."""
        if not {*report.damaged} <= harm.damaged.keys():
            raise PromiseBroken(
                f"records at {report.damaged} count as damaged; {[*harm.damaged]} are"
            )
        warnings, self._log.warnings = self._log.warnings, []
        if not self._model.kept:  # a log that is cut down to nothing may count as missing
            return
        if self._model.min_offset:  # a queue whose first file was deleted may look incomplete
            warnings = [text for text in warnings if text != INCOMPLETE_QUEUES]
        if warnings and not harm.lost:
            raise PromiseBroken(f"a start warns without a reason: {warnings[0]}")
        if NOT_OF_THIS_LOG in warnings:
            raise PromiseBroken(f"a start warns of its own index: {NOT_OF_THIS_LOG}")

    # --- inside ---------------------------------------------------------------------------------------------------

    def _new_store(self) -> MessageStore:
        config = StoreConfig(
            root=ROOT,
            log_folders=LOG_FOLDERS[: self.plan.log_folders],
            commit_log_file_size=self.plan.log_file_size,
            consume_queue_file_size=self.plan.queue_file_size,
            retention=RetentionConfig(reserved_ms=0, delete_hours=tuple(range(24))),
            index_slots=self.plan.index_slots,
            index_numbers=self.plan.index_numbers,
            buffered=self.plan.sync_flush,
            pool=PoolConfig(buffers=2, commit_pages=2) if self.plan.pool else None,
            message_size_max=self.plan.log_file_size,
            is_slave=self.plan.is_slave,
        )
        return MessageStore(self._storage, self._clock, self._log, config, policy=self._policy)

    def _charge(self, cost_ns: int) -> None:
        self._clock.now_ns += cost_ns

    def _draw(self, bound: int) -> int:
        return int(self._random.random() * bound)


def _with_rocketmq_reads(policy: StorePolicy) -> StorePolicy:
    """Return the policy with RocketMQ's dispatch, key search and time search, under which all promises hold, too."""
    return replace(
        policy,
        dispatcher=make_rereading_dispatcher,
        key_search=JAVA_SEARCH,
        time_search=nearest_in_file,
    )
