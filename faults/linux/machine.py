"""A machine for the mechanisms of faults: runs commands, and records each resource before it is made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from staticfire.faults.linux.executor import TIMEOUT_S, CommandFailed, Executor
from staticfire.faults.linux.inventory import Inventory
from staticfire.faults.linux.resources import Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class LinuxMachine:
    """A machine, or a part of one. Commands run behind `prefix`; `nsenter` as a prefix selects a network namespace.

    `host` is the name by which `clean` finds the executor again ("" is this machine). `python` is the interpreter on
    the machine.
    """

    executor: Executor
    inventory: Inventory
    host: str = ""
    prefix: tuple[str, ...] = ()
    python: str = "python3"

    def behind(self, prefix: Sequence[str]) -> Self:
        """Return the same machine, entered through one more prefix."""
        return replace(self, prefix=(*self.prefix, *prefix))

    async def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = TIMEOUT_S
    ) -> str:
        """Run a command; return its stdout. Raises CommandFailed, CommandTimedOut."""
        output = await self.executor.run([*self.prefix, *argv], input=input, timeout_s=timeout_s)
        return output.decode(errors="replace")

    async def answers(self, argv: Sequence[str], *, timeout_s: float = TIMEOUT_S) -> bool:
        """Whether the command ends with status 0. Raises CommandTimedOut."""
        try:
            await self.run(argv, timeout_s=timeout_s)
        except CommandFailed:
            return False
        return True

    async def script(
        self, module: ModuleType, *arguments: object, timeout_s: float = TIMEOUT_S
    ) -> Any:
        """Run a module of `staticfire.faults.linux.on_node` there; return the JSON that it prints (None for nothing).

        Raises CommandFailed, CommandTimedOut.
        """
        assert module.__file__ is not None
        source = Path(module.__file__).read_bytes()
        argv = [self.python, "-", *map(str, arguments)]
        output = await self.run(argv, input=source, timeout_s=timeout_s)
        return json.loads(output) if output.strip() else None

    def will_make(self, kind: str, name: str, **details: str) -> Resource:
        """Record a resource that is about to be made. The caller makes it only after that."""
        resource = Resource(
            kind=kind, name=name, host=self.host, prefix=self.prefix, details=details
        )
        self.inventory.will_make(resource)
        return resource

    async def remove(self, resource: Resource) -> bool:
        """Remove the resource if it exists, and record that; return whether it existed.

        Raises CommandFailed, CommandTimedOut, FaultError; then it stays in the inventory.
        """
        return await self.inventory.remove(resource, self.executor)
