"""The work of a Spark executor in a hunt: it runs one seed in a watched process of its own."""

from __future__ import annotations

import pickle
from functools import cache

from staticfire.harness.cli.hunt.workers import Task, carry_out, watched_worker
from staticfire.harness.worker_processes import WatchedWorker

FUNCTION = f"{__name__}:run_pickled"
READY = b""  # the call that checks that this executor can import what a seed needs


def pickled(task: Task, limit_s: float | None) -> bytes:
    """Return a pickled call of `run_pickled`."""
    return pickle.dumps((task, limit_s))


def run_pickled(call: bytes) -> bytes:
    """Run the seed and return its pickled result, also if its process ends or hangs."""
    if call == READY:
        _import_all()
        return READY
    task, limit_s = pickle.loads(call)
    return pickle.dumps(carry_out(_worker(limit_s), Task(*task)))


def _import_all() -> None:
    import staticfire.checkers.verdicts.compose
    import staticfire.harness.runs.any_runner
    import staticfire.harness.runs.simulated_runner  # noqa: F401


@cache
def _worker(limit_s: float | None) -> WatchedWorker:
    """Return the process of this Python worker, which Spark reuses."""
    return watched_worker(limit_s)
