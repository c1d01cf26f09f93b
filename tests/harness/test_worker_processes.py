"""Worker processes of a command: their results, their exit, and signals during their start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future

import pytest

from staticfire.harness.worker_processes import WatchedWorker, WorkerPool, ended_futures

INTERRUPTED = """
import os, signal
from staticfire.harness.worker_processes import WorkerPool

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

os.register_at_fork(after_in_parent=interrupt, after_in_child=interrupt)
try:
    with WorkerPool(2) as pool:
        pool.submit(abs, -1)
        print("not interrupted")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_every_task_has_its_result() -> None:
    with WorkerPool(2) as pool:
        assert sorted(pool.results(abs, range(-50, 0))) == list(range(1, 51))
        assert list(pool.results(abs, ())) == []


def test_futures_are_given_as_they_end_until_the_time_is_over() -> None:
    ended, open_ = Future[int](), Future[int]()
    ended.set_result(7)
    until = time.monotonic() + 0.001
    assert [future.result() for future in ended_futures([ended, open_], until)] == [7]
    assert time.monotonic() >= until
    assert list(ended_futures([ended], time.monotonic())) == []


def test_an_error_of_a_task_is_that_of_the_command() -> None:
    with pytest.raises(ZeroDivisionError), WorkerPool(1) as pool:
        list(pool.results(divided, [1, 0]))


def divided(number: int) -> float:
    return 1 / number


def test_an_exception_kills_the_workers() -> None:
    with pytest.raises(RuntimeError), WorkerPool(1) as pool:
        worker = pool.submit(os.getpid).result()
        pool.submit(time.sleep, 3600)
        raise RuntimeError
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def test_a_worker_that_is_killed_between_two_calls_is_replaced() -> None:
    worker = WatchedWorker(os.getpid)
    try:
        worker.begin()
        first = worker.result()
        os.kill(first, signal.SIGKILL)
        os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
        worker.begin()
        assert worker.result() not in (first, os.getpid())
    finally:
        worker.end()


def test_a_signal_while_a_process_is_forked_is_not_lost() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("interrupted\n", "")
