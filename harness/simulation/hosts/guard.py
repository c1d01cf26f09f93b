"""Catches code of a simulated process that uses the real world: clocks, randomness, files, threads.

The lint finds most of such code in the source; the guard finds the rest at run time. While a world runs, the functions
below raise Escape if the caller belongs to a simulated process. An audit hook does the same for files, sockets and
child processes. The guard does not catch names imported before (`from time import time`) and datetime.now.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from staticfire.harness.simulation.scheduling.run_queue import OWNER

CLOCKS = (
    "time",
    "time_ns",
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "sleep",
)
DRAWS = (
    "random",
    "randrange",
    "randint",
    "randbytes",
    "getrandbits",
    "choice",
    "choices",
    "sample",
    "shuffle",
    "uniform",
    "gauss",
    "seed",
)
PATCHES: tuple[tuple[object, str, tuple[str, ...]], ...] = (
    (time, "time", CLOCKS),
    (random, "random", DRAWS),
    (os, "os", ("urandom", "getpid")),
    (uuid, "uuid", ("uuid1", "uuid4")),
    (threading.Thread, "threading.Thread", ("start",)),
)
AUDITED = ("open", "os.", "socket.", "subprocess.", "shutil.", "tempfile.", "mmap.")
# These may read files for a node: imports inside functions read modules, tracebacks read source lines.
READERS = ("importlib._bootstrap", "importlib._bootstrap_external", "linecache", "zipimport")


class Escape(BaseException):
    """A simulated process used something that the seed does not decide. Not an Exception: no handler may swallow it."""


class Guard:
    """Guards the simulated processes of one world at a time, while `watch` is active."""

    _active: Guard | None = None
    _is_hooked = False

    def __init__(self) -> None:
        self._fail: Callable[[Escape], None] | None = None

    @contextmanager
    def watch(self, fail: Callable[[Escape], None]) -> Iterator[None]:
        """Guard the processes of a world; `fail` gets every Escape and ends the run even if the process catches it."""
        self._fail = fail
        originals = [
            (owner, name, getattr(owner, name)) for owner, _, names in PATCHES for name in names
        ]
        Guard._active = self
        Guard._hook()
        try:
            self._patch()
            yield
        finally:
            Guard._active = None
            # A module that was imported meanwhile keeps guarded functions for ever: not the world with them.
            self._fail = None
            for owner, name, original in originals:
                setattr(owner, name, original)

    def _patch(self) -> None:
        for owner, label, names in PATCHES:
            for name in names:
                setattr(owner, name, self._guarded(getattr(owner, name), f"{label}.{name}"))

    def _guarded(self, original: Callable[..., object], label: str) -> Callable[..., object]:
        def guarded(*args: object, **kwargs: object) -> object:
            if is_simulated():
                self._escape(label)
            return original(*args, **kwargs)

        return guarded

    def _escape(self, label: str) -> None:
        escape = Escape(f"{label} was called by {process_name()}: a node gets this from its Env")
        if self._fail is not None:
            self._fail(escape)
        raise escape

    @classmethod
    def _hook(cls) -> None:
        if not cls._is_hooked:
            cls._is_hooked = True
            sys.addaudithook(cls._audit)  # Python cannot remove an audit hook

    @classmethod
    def _audit(cls, event: str, _: tuple[object, ...]) -> None:
        guard = cls._active
        if guard is None or not event.startswith(AUDITED) or not is_simulated():
            return
        if not is_reader(sys._getframe(1)):
            guard._escape(event)


def is_simulated() -> bool:
    """Whether the running code belongs to a simulated process, rather than the harness or the world."""
    owner = OWNER.get(None)
    return owner is not None and owner.process is not None


def process_name() -> str:
    process = OWNER.get().process
    assert process is not None
    return process.name


def is_reader(frame: FrameType | None) -> bool:
    """Whether this call comes from the import system or from printing a traceback."""
    while frame is not None:
        if frame.f_globals.get("__name__") in READERS:
            return True
        frame = frame.f_back
    return False
