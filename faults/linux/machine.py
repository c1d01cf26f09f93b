"""A machine as the mechanics see it: where commands run, and where what is made there is written down first."""

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
    """Commands run behind `prefix`: with an `nsenter` there, a network namespace is a machine of its own.

    `host` is the name under which the inventory finds the executor again ("" is this machine); `python` is the
    interpreter there.
    """

    executor: Executor
    inventory: Inventory
    host: str = ""
    prefix: tuple[str, ...] = ()
    python: str = "python3"

    def behind(self, prefix: Sequence[str]) -> Self:
        """The same machine, entered through one more prefix."""
        return replace(self, prefix=(*self.prefix, *prefix))

    async def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = TIMEOUT_S
    ) -> str:
        """The stdout of a command. Raises CommandFailed, CommandTimedOut."""
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
        """Run a module of `staticfire.faults.linux.on_node` there; returns the JSON that it prints (None for nothing).

        Raises CommandFailed, CommandTimedOut.
        """
        assert module.__file__ is not None
        source = Path(module.__file__).read_bytes()
        argv = [self.python, "-", *map(str, arguments)]
        output = await self.run(argv, input=source, timeout_s=timeout_s)
        return json.loads(output) if output.strip() else None

    def will_make(self, kind: str, name: str, **details: str) -> Resource:
        """Write down that this is about to be made. Only then may it be made."""
        resource = Resource(
            kind=kind, name=name, host=self.host, prefix=self.prefix, details=details
        )
        self.inventory.will_make(resource)
        return resource

    async def remove(self, resource: Resource) -> bool:
        """Remove it if it is there, and write that down. Returns whether it was there.

        Raises CommandFailed, CommandTimedOut: then it stays in the inventory.
        """
        return await self.inventory.remove(resource, self.executor)
