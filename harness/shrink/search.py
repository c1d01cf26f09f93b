"""Searches for the smallest campaign that fails in the same way, with candidates in processes of their own."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from concurrent.futures.process import BrokenProcessPool

from staticfire.harness.results.fingerprint import Fingerprint
from staticfire.harness.shrink.candidates import PASSES
from staticfire.harness.shrink.reducer import Reducer
from staticfire.harness.shrink.trials import Answer, Trial, try_candidate
from staticfire.harness.worker_processes import WorkerPool

Improved = Callable[[str, Trial], None]  # takes the name of the pass and the new best


class BudgetSpent(Exception):
    """The budget is spent. The best candidate so far was reported."""


class WorkerLost(Exception):
    """A process that tried a candidate was killed, for instance for lack of memory."""


class Search:
    """Tries candidates. A candidate that cannot be run counts as not failing.

    Args:
        wanted: the fingerprint that a candidate must show.
        jobs: number of processes.
        until: the end of the search, by `time.monotonic`.
        improved: takes each new best.
        tried: called when candidates begin, and when they have ended.

    Attributes:
        not_run: counts of candidates that could not be run, by reason.
        runs: number of runs.
        cpu_s: CPU time of the runs.
    """

    def __init__(
        self,
        wanted: Fingerprint,
        jobs: int,
        until: float,
        improved: Improved,
        tried: Callable[[], None] = lambda: None,
    ) -> None:
        self._wanted = wanted
        self._jobs = jobs
        self._until = until
        self._improved = improved
        self._tried = tried
        self.not_run: Counter[str] = Counter()
        self.runs = 0
        self.cpu_s = 0.0
        self._pool = WorkerPool(jobs)

    def run(self, first: Trial) -> bool:
        """Search; return whether the search is complete, so that no pass can simplify the reported best.

        Raises WorkerLost.
        """
        reducer = Reducer(PASSES, self._try_all, self._improved, _key, self._jobs)
        try:
            reducer.reduce(first)
        except BudgetSpent:
            return False
        except BrokenProcessPool as error:
            raise WorkerLost("a process that tried a campaign was killed") from error
        finally:
            self._pool.end()
        return True

    def _try_all(self, candidates: Sequence[Trial]) -> tuple[int, Trial] | None:
        futures = [
            self._pool.submit(try_candidate, candidate.campaign, self._wanted, candidate.seeds)
            for candidate in candidates
        ]
        self._tried()
        _, late = wait(futures, timeout=max(self._until - time.monotonic(), 0.0))
        answers = [future.result() for future in futures if future not in late]
        for answer in answers:
            self._count(answer)
        self._tried()
        for index, future in enumerate(futures):
            if future not in late and (found := future.result().found) is not None:
                return index, found
        if late:
            raise BudgetSpent
        return None

    def _count(self, answer: Answer) -> None:
        self.runs += answer.runs
        self.cpu_s += answer.cpu_s
        if answer.not_run:
            self.not_run[answer.not_run] += 1


def _key(trial: Trial) -> str:
    return repr(trial.campaign)
