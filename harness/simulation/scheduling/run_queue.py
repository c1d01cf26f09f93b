"""The event loop of one process as the scheduler sees it: a FIFO of callbacks and at most one scheduled turn.

asyncio promises that callbacks run in the order of call_soon, and transports rely on it, so the queue does not shuffle
them. The seed varies how long a turn takes, how soon a sleeping loop wakes up and how late its timers are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from heapq import heappush
from typing import Protocol

from staticfire.harness.simulation.scheduling.handles import SimHandle, SimTimerHandle
from staticfire.harness.simulation.scheduling.scheduler import Scheduler
from staticfire.harness.simulation.scheduling.tasks import SimTask
from staticfire.harness.simulation.scheduling.timing import Timing
from staticfire.harness.simulation.scheduling.trace import Trace

# The process whose code runs. Tasks and callbacks inherit it with their context.
OWNER: ContextVar[RunQueue] = ContextVar("OWNER")

PRUNE_MIN = 64


class QueuedProcess(Protocol):
    """The process that a queue belongs to."""

    name: str

    def exit_by(self, error: SystemExit) -> None:
        """End the process because a callback or task raised this error."""
        ...

    def bury(self) -> None:
        """Release everything after the run."""
        ...


class RunQueue:
    """Callbacks and tasks of one process.

    `ready` belongs to the hot path of the loop: append to it, then call `wake()` unless `scheduled`. A paused or dead
    process has `scheduled` set, so its queue grows and is not run. Nothing of a dead process is released before the end
    of the run, because releasing a coroutine would run its `finally` blocks.
    """

    __slots__ = (
        "_busy_until_ns",
        "_due",
        "_is_asleep",
        "_prune_at",
        "_random",
        "_timing",
        "_trace",
        "_turn",
        "after_turn",
        "alive",
        "busy_ns",
        "number",
        "on_error",
        "parked",
        "paused",
        "process",
        "ready",
        "scheduled",
        "scheduler",
        "tasks",
    )

    def __init__(
        self,
        number: int,
        scheduler: Scheduler,
        trace: Trace,
        timing: Timing,
        random: Callable[[], float],
        on_error: Callable[[str, BaseException | None], None],
        process: QueuedProcess | None = None,
    ) -> None:
        self.number = number
        self.scheduler = scheduler
        self.process = process
        self.on_error = on_error
        self.ready: deque[SimHandle | SimTimerHandle] = deque()
        self.scheduled = False
        self.alive = True
        self.paused = False
        self.tasks: list[SimTask] = []
        self.parked: list[Callable[[], None]] = []
        self._prune_at = PRUNE_MIN
        self._timing = timing
        self._trace = trace
        self._random = random
        self._busy_until_ns = 0
        self.busy_ns = 0  # of all turns, without blocking calls
        self._due: list[SimTimerHandle] = []  # timers that fell due while it was paused
        self._is_asleep = False  # when it was paused
        self._turn = 0
        self.after_turn: Callable[[], None] | None = (
            None  # called to read the process; must not change anything
        )

    def enqueue(self, handle: SimHandle) -> None:
        """Append a callback that the kernel made ready."""
        self.ready.append(handle)
        if not self.scheduled:
            self.wake()

    def enqueue_timer(self, timer: SimTimerHandle) -> None:
        """Append a due timer. The loop wakes up late for it, but never runs two timers in the wrong order."""
        if self.paused:
            self._due.append(timer)
            return
        self.ready.append(timer)
        if not self.scheduled:
            late = self._random()
            late *= late
            self._schedule(int(late * late * self._timing.timer_late_ns))

    def wake(self) -> None:
        """Schedule a turn of a loop that sleeps."""
        timing = self._timing
        self._schedule(timing.wake_min_ns + int(self._random() * timing.wake_spread_ns))

    def _schedule(self, delay_ns: int) -> None:
        self.scheduled = True
        scheduler = self.scheduler
        when_ns = scheduler.now_ns + delay_ns
        if when_ns < self._busy_until_ns:
            when_ns = self._busy_until_ns
        heappush(scheduler.heap, (when_ns, scheduler.next_sequence(), self._run_turn, self._turn))

    def _run_turn(self, turn: int) -> None:
        if turn != self._turn:  # paused, resumed or killed since it was scheduled
            return
        ready, scheduler, labelled = self.ready, self.scheduler, self._trace.labelled
        waiting = ran = len(ready)
        self._trace.record(scheduler.now_ns, self.number, ran)
        debt_ns = 0
        while waiting:
            waiting -= 1
            handle = ready.popleft()
            if handle.is_cancelled:
                continue
            if labelled:
                self._trace.record("run", label(handle))
            args = handle.args
            try:
                if args:
                    handle.context.run(handle.callback, *args)
                else:  # half of all calls; cheaper without a tuple of arguments
                    handle.context.run(handle.callback)
            except (KeyboardInterrupt, SystemExit) as error:
                self._leave(error)
            except BaseException as error:  # as asyncio.Handle._run does
                if self.alive:  # a power cut inside a disk call is no error
                    self.on_error("exception in a callback", error)
            if scheduler.debt_ns or turn != self._turn:
                # A blocking call stalls the loop: the remaining callbacks run when it has returned.
                debt_ns, scheduler.debt_ns = scheduler.debt_ns, 0
                break
        timing = self._timing
        cost_ns = timing.iteration_min_ns + int(self._random() * timing.iteration_spread_ns)
        cost_ns += (ran - waiting) * timing.handle_ns
        self.busy_ns += cost_ns
        self._busy_until_ns = scheduler.now_ns + cost_ns + debt_ns
        if self.after_turn is not None and self.alive:
            self.after_turn()
        if turn != self._turn:
            return
        if ready:
            self._schedule(0)
        else:
            self.scheduled = False

    def _leave(self, error: KeyboardInterrupt | SystemExit) -> None:
        if isinstance(error, KeyboardInterrupt) or self.process is None:
            raise error
        self.process.exit_by(error)

    def executor_delay_ns(self) -> int:
        """Draw how long a thread takes to begin, and how long the loop takes to notice its end."""
        timing = self._timing
        return timing.executor_min_ns + int(self._random() * timing.executor_spread_ns)

    def add_task(self, task: SimTask) -> None:
        """Keep `task` from being released as long as it is pending."""
        self.tasks.append(task)
        if len(self.tasks) >= self._prune_at:
            self.tasks = [task for task in self.tasks if not task.done()]
            self._prune_at = max(PRUNE_MIN, 2 * len(self.tasks))

    def pause(self) -> None:
        """Stop between two callbacks (SIGSTOP). Due timers and arrived bytes wait."""
        if not self.paused:
            self._is_asleep = not self.scheduled
        self.paused = True
        self.scheduled = True
        self._turn += 1

    def resume(self) -> None:
        """Continue (SIGCONT); a dead process stays dead."""
        if not self.alive or not self.paused:
            return
        self.paused = False
        self.scheduled = False
        self._take_due_timers()
        parked, self.parked = self.parked, []
        for restart in parked:
            restart()
        if self.ready:
            self.wake()

    def _take_due_timers(self) -> None:
        """Enqueue the timers that fell due during a pause.

        A loop that was paused while it slept wakes up without events (signal(7): EINTR), so its timers come first. A
        loop that was paused at work polls for events before it reads the clock, as in every turn, so its timers come
        last.
        """
        due, self._due = self._due, []
        if self._is_asleep:
            self.ready.extendleft(reversed(due))
        else:
            self.ready.extend(due)

    def die(self) -> None:
        """Stop for good."""
        self.alive = False
        self.scheduled = True
        self._turn += 1

    def bury(self) -> None:
        """Release everything after the run. The loop ignores all calls of the coroutines that this closes."""
        self.die()
        while self.tasks:
            tasks, self.tasks = self.tasks, []
            for task in tasks:
                task.discard()
        if self.process is not None:
            self.process.bury()
        self.ready.clear()
        self._due.clear()
        self.parked.clear()


def label(handle: SimHandle | SimTimerHandle) -> str:
    """Name a callback without anything that depends on addresses."""
    callback = handle.callback
    task = getattr(callback, "__self__", None)
    if isinstance(task, SimTask):
        return task.get_name()
    return getattr(callback, "__qualname__", None) or type(callback).__name__
