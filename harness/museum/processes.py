"""Runs workers with a patched system, which read a job from standard input and print rows."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from tempfile import TemporaryFile
from typing import IO, Any

import orjson

ERROR_LENGTH_MAX = 200  # characters of the last line of a process that dies


def rows_of(
    module: str, job: Mapping[str, Any], folders: Sequence[str], variables: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a worker, the module `module`, which imports the patched system in `folders`.

    A worker that dies gives a failed row with the last line of its standard error.
    """
    paths = [*folders, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-P", "-m", module]
    with (
        TemporaryFile() as errors,
        subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(orjson.dumps(job))
            process.stdin.close()
            for line in process.stdout:
                yield orjson.loads(line)
            if process.wait():
                yield _died(process.returncode, errors, job)
        except BaseException:
            process.kill()
            raise


def _died(status: int, errors: IO[bytes], job: Mapping[str, Any]) -> dict[str, object]:
    errors.seek(0)
    lines = errors.read().decode("utf-8", "replace").strip().splitlines() or ["no word"]
    text = f"the worker ended with status {status}: {lines[-1][:ERROR_LENGTH_MAX]}"
    return {"valid": "unknown", "failed": text, "cpu_s": float(job["cpu_s"])}
