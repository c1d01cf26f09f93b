"""Runs the commands of a farm, each in a process of its own with the code of one commit."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from staticfire.harness.cli.status import HarnessError
from staticfire.harness.version import ROOT


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended."""

    status: int
    cpu_s: float
    error: str  # the last line of its stderr


class Hands(Protocol):
    """The interface through which a farm finds commits and runs commands."""

    def newest_commit(self) -> str:
        """Return the commit whose code the next commands run; empty outside a checkout. Raises HarnessError."""

    def staticfire(self, *arguments: object) -> Ended:
        """Run a command to its end. Raises KeyboardInterrupt, after the command has ended."""


class Processes:
    """Runs commands on this machine, from a clone in `folder` of this process's checkout.

    Uncommitted files take no part, since a row names a commit.
    """

    def __init__(self, folder: Path, checkout: Path = ROOT) -> None:
        self._clone, self._checkout = folder / "code", checkout
        self._has_code = (checkout / ".git").exists()

    def newest_commit(self) -> str:
        if not self._has_code:
            return ""
        if not self._clone.exists():
            self._git("clone", "--quiet", "--shared", "--no-checkout", self._checkout, self._clone)
        inside = ("-C", self._clone)
        self._git(*inside, "fetch", "--quiet", self._checkout, "HEAD")
        self._git(*inside, "checkout", "--quiet", "--force", "--detach", "FETCH_HEAD")
        return self._git(*inside, "rev-parse", "--short=12", "HEAD").strip()

    def staticfire(self, *arguments: object) -> Ended:
        command = [sys.executable, "-P", "-m", "staticfire", *map(str, arguments)]
        paths = [str(self._clone)] if self._has_code else []
        paths += filter(None, [os.environ.get("PYTHONPATH")])
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        before_s = _children_s()
        with subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C is for the farm
        ) as process:
            try:
                _, said = process.communicate()
            except BaseException:
                process.send_signal(signal.SIGTERM)
                process.communicate()
                raise
        last = said.strip().splitlines()[-1:]
        return Ended(process.returncode, _children_s() - before_s, "".join(last))

    def _git(self, *arguments: object) -> str:
        clean = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
        command = ["git", *map(str, arguments)]
        try:
            done = subprocess.run(command, env=clean, capture_output=True, text=True, check=False)
        except OSError as error:
            raise HarnessError(f"git cannot be run: {error.strerror}") from error
        if done.returncode:
            said = " ".join(done.stderr.split())
            raise HarnessError(f"git {arguments[-1]} failed in {self._checkout}: {said}")
        return done.stdout


def _children_s() -> float:
    """Return the CPU time of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def slug(text: str) -> str:
    """Return the text in a form that can be the name of a file."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:80] or "unnamed"
