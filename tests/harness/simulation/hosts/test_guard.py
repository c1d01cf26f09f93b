"""Guard of the simulation: a node that uses the real world is caught at the call."""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import random
import subprocess
import threading
import time
import traceback
import uuid
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from staticfire.harness.simulation import Escape, World
from staticfire.system_under_test.runtime.env import Env
from tests.harness.simulation.two_hosts import TwoHosts, run_process

ESCAPES: list[tuple[Callable[[], object], str]] = [
    (lambda: time.time(), "time.time was called by client"),
    (lambda: time.monotonic(), "time.monotonic was called by client"),
    (lambda: time.sleep(1), "time.sleep was called by client"),
    (lambda: random.random(), "random.random was called by client"),
    (lambda: random.shuffle([]), "random.shuffle was called by client"),
    (lambda: os.urandom(4), "os.urandom was called by client"),
    (lambda: uuid.uuid4(), "uuid.uuid4 was called by client"),
    (lambda: threading.Thread().start(), "threading.Thread.start was called by client"),
    (lambda: Path("/nowhere").read_bytes(), "open was called by client"),
    (lambda: os.listdir("/"), "os.listdir was called by client"),
    (lambda: subprocess.run(["true"], check=True), "subprocess.Popen was called by client"),
]


@pytest.mark.parametrize(("escape", "text"), ESCAPES)
def test_escapes_end_the_run(escape: Callable[[], object], text: str) -> None:
    async def main(_: Env) -> None:
        escape()

    with pytest.raises(Escape, match=text):
        run_process(main)


def test_a_swallowed_escape_still_ends_the_run() -> None:
    async def main(_: Env) -> None:
        try:
            time.time()
        except BaseException:
            await asyncio.sleep(1)

    with pytest.raises(Escape):
        run_process(main)


def test_in_an_executor_job() -> None:
    async def main(_: Env) -> None:
        await asyncio.get_running_loop().run_in_executor(None, time.time)

    # The function was looked up in the guarded module, so the job calls the guarded one.
    with pytest.raises(Escape, match=r"time\.time"):
        run_process(main)


def test_the_harness_may_do_all_this(tmp_path: Path) -> None:
    async def harness() -> None:
        assert time.time() > 0
        assert random.random() < 1
        (tmp_path / "file").write_text("x")

    World(1).run(harness)


def test_imports_and_tracebacks_are_no_escapes() -> None:
    async def main(_: Env) -> str:
        importlib.import_module("this_module_does_not_exist")

        return ""

    async def printing(env: Env) -> str:
        try:
            await main(env)
        except ModuleNotFoundError:
            return traceback.format_exc()
        return ""

    assert "importlib.import_module(" in run_process(printing)


def test_everything_is_as_before_after_the_run() -> None:
    before = (time.time, random.random, os.urandom, uuid.uuid4, threading.Thread.start)

    async def harness() -> bool:
        return time.time is before[0]

    assert World(1).run(harness) is False
    assert (time.time, random.random, os.urandom, uuid.uuid4, threading.Thread.start) == before


def test_a_guarded_function_that_is_kept_does_not_keep_the_world() -> None:
    """As a module does that is imported during the run, and says `from random import randint`."""
    kept = []
    tasks: list[object] = []

    async def ends_late() -> None:
        try:
            await asyncio.Event().wait()
        finally:  # after the world is closed, which therefore holds a timer
            asyncio.get_running_loop().call_later(1, print)

    async def harness() -> None:
        kept.append(random.random)
        tasks.append(weakref.ref(asyncio.create_task(ends_late())))
        await asyncio.sleep(1)

    world = World(1)
    world.run(harness)
    loop = weakref.ref(world.loop)
    del world
    gc.collect()
    assert kept
    assert kept[0] is not random.random
    assert loop() is None


def test_the_guard_can_be_left_out() -> None:
    async def main(_: Env) -> float:
        return time.time()

    assert TwoHosts(guard=False).run(main) > 0
