"""An executor that runs nothing: it remembers the commands, and answers what a test has laid down for them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from staticfire.faults.linux.executor import CommandFailed
from staticfire.faults.linux.inventory import Inventory
from staticfire.faults.linux.machine import LinuxMachine


class RecordingExecutor:
    """`answers` maps the beginning of a command, as words, to its output, or to what it says on stderr and fails."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.inputs: list[str] = []
        self.answers: dict[str, str | CommandFailed] = {}

    async def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 30.0
    ) -> bytes:
        await asyncio.sleep(0)  # others run meanwhile, as with a real command
        self.commands.append(list(argv))
        self.inputs.append(input.decode())
        line = " ".join(argv)
        for beginning, answer in self.answers.items():
            if line.startswith(beginning):
                if isinstance(answer, CommandFailed):
                    raise answer
                return answer.encode()
        return b""

    @property
    def lines(self) -> list[str]:
        return [" ".join(argv) for argv in self.commands]


def failing(stderr: str, status: int = 1) -> CommandFailed:
    return CommandFailed(["command"], status, stderr)


def recording_machine(
    folder: Path, prefix: tuple[str, ...] = ()
) -> tuple[LinuxMachine, RecordingExecutor]:
    executor = RecordingExecutor()
    inventory = Inventory(folder / "abc123.inventory.jsonl")
    return LinuxMachine(executor=executor, inventory=inventory, prefix=prefix), executor
