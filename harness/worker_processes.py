"""The first steps of a process that does part of the work of a command."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.process import BaseProcess

EXIT_WITHOUT_PARENT = 255


def begin_worker(*, ends_with_sigterm: bool = False) -> None:
    """Set up a worker: it ignores Ctrl-C, which its parent handles, and ends with its parent.

    Args:
        ends_with_sigterm: as the workers of `multiprocessing.Pool` must; others ignore SIGTERM, too.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL if ends_with_sigterm else signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(EXIT_WITHOUT_PARENT)
