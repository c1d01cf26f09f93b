"""The longest turn of an event loop of a simulated world: what it cost, and what it was busy with."""

from __future__ import annotations

import gc
import signal
import time
import traceback
from dataclasses import dataclass
from types import FrameType

from staticfire.harness.simulation.scheduling.run_queue import RunQueue

SAMPLE_S = 0.01  # of CPU
LOOKED_AT_S = 0.02  # from here on it is noted what a turn is busy with
DEEPEST = 8  # frames of a sample that are kept


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn. `samples`: where it was found, each with the innermost frame first."""

    spent_s: float = 0.0
    collecting_s: float = 0.0  # of these, the garbage collection of the whole process
    process: str = ""
    samples: tuple[str, ...] = ()

    def __str__(self) -> str:
        spent, collecting = self.spent_s * 1000, self.collecting_s * 1000
        first = f"{spent:.1f} ms of {self.process}, {collecting:.1f} ms of these collecting garbage"
        return "\n".join([first, *(f"  in {sample}" for sample in self.samples)])


class LongestTurn:
    """Watches all simulated event loops of this process. CPU seconds of its main thread."""

    def __init__(self) -> None:
        self._longest = Turn()
        self._began_s: float | None = None
        self._samples: list[str] = []
        self._collecting_s = 0.0
        self._collection_began_s = 0.0

    def watch(self) -> None:
        """Time the turns of all simulated event loops from now on."""
        run_turn = RunQueue._run_turn

        def timed(queue: RunQueue, turn: int) -> None:
            self._samples, self._collecting_s = [], 0.0
            self._began_s = began_s = time.thread_time()
            run_turn(queue, turn)
            self._began_s = None
            spent_s = time.thread_time() - began_s
            if spent_s > self._longest.spent_s:
                name = "the harness" if queue.process is None else queue.process.name
                self._longest = Turn(spent_s, self._collecting_s, name, tuple(self._samples))

        RunQueue._run_turn = timed  # type: ignore[method-assign, assignment]
        gc.callbacks.append(self._collected)
        signal.signal(signal.SIGVTALRM, self._sample)
        signal.setitimer(signal.ITIMER_VIRTUAL, SAMPLE_S, SAMPLE_S)

    def take(self) -> Turn:
        """The longest since the last call."""
        longest, self._longest = self._longest, Turn()
        return longest

    def _sample(self, _signal: int, frame: FrameType | None) -> None:
        began_s = self._began_s
        if began_s is None or frame is None or time.thread_time() - began_s < LOOKED_AT_S:
            return
        stack = traceback.extract_stack(frame)[: -DEEPEST - 1 : -1]
        self._samples.append(
            " < ".join(
                f"{one.name} {one.filename.rpartition('/')[2]}:{one.lineno}" for one in stack
            )
        )

    def _collected(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._collection_began_s = time.thread_time()
        else:
            self._collecting_s += time.thread_time() - self._collection_began_s
