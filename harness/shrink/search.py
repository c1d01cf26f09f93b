"""The search for the smallest campaign that fails in the same way: candidates in processes of their own."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial

from staticfire.harness.results.fingerprint import Fingerprint
from staticfire.harness.shrink.candidates import PASSES, allowed
from staticfire.harness.shrink.reducer import Pass, Reducer
from staticfire.harness.shrink.trials import Trial, failing_trial

Improved = Callable[[str, Trial], None]  # takes the name of the pass and the new best


class BudgetSpent(Exception):
    """The time is over; the best so far was reported."""


class WorkerLost(Exception):
    """A process that tried a candidate was killed, for instance for want of memory."""


class Search:
    """Tries candidates. One that cannot be run counts as one that does not fail.

    Args:
        wanted: the fingerprint that a candidate has to show.
        jobs: processes.
        until: of `time.monotonic`.
        improved: takes each new best.
        begin_worker: is called first in each process.

    Attributes:
        not_run: why candidates could not be run, and how many for each reason.
    """

    def __init__(
        self,
        wanted: Fingerprint,
        jobs: int,
        until: float,
        improved: Improved,
        begin_worker: Callable[[], None],
    ) -> None:
        self._wanted = wanted
        self._jobs = jobs
        self._until = until
        self._improved = improved
        self.not_run: Counter[str] = Counter()
        context = multiprocessing.get_context("fork")
        self._pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=begin_worker)

    def run(self, first: Trial) -> bool:
        """Whether it came to its end: the best that it reported cannot be made simpler by any pass.

        Raises WorkerLost.
        """
        passes: dict[str, Pass[Trial]] = {name: partial(_simpler, name) for name in PASSES}
        reducer = Reducer(passes, self._try_all, self._improved, _key, self._jobs)
        try:
            reducer.reduce(first)
        except BudgetSpent:
            return False
        except BrokenProcessPool as error:
            raise WorkerLost("a process that tried a campaign was killed") from error
        finally:
            self._end()
        return True

    def _try_all(self, candidates: Sequence[Trial]) -> Trial | None:
        futures = [
            self._pool.submit(failing_trial, candidate.campaign, self._wanted)
            for candidate in candidates
        ]
        _, late = wait(futures, timeout=max(self._until - time.monotonic(), 0.0))
        found = [future.result() for future in futures if future not in late]
        self.not_run.update(answer for answer in found if isinstance(answer, str))
        best = next((answer for answer in found if isinstance(answer, Trial)), None)
        if late and best is None:
            raise BudgetSpent
        return best

    def _end(self) -> None:
        """Candidates under way are not waited for."""
        for worker in multiprocessing.active_children():
            worker.kill()
        self._pool.shutdown(cancel_futures=True)


def _simpler(name: str, trial: Trial) -> list[Trial]:
    """Candidates, which have yet to be run."""
    return [
        Trial(campaign=campaign, digest="", sends=0, fingerprint=None)
        for campaign in allowed(PASSES[name](trial.campaign))
    ]


def _key(trial: Trial) -> str:
    return trial.campaign.to_toml()
