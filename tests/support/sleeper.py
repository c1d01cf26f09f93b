"""A process of a test that does nothing until it is ended."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"


@contextmanager
def sleeper(
    script: str = "print(flush=True); import signal; signal.pause()",
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """It has printed its first line: whatever the script sets up before is there."""
    argv = [sys.executable, "-S", "-c", script]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()
