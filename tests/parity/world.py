"""What a parity test is written against: two hosts, and a scenario that tells their processes what to do.

Both worlds implement `World` and `Host`. What a scenario learns comes as reports of `node.Node` through `Remote`, which
is the same code in both.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any
from zlib import crc32

from tests.parity.node import Command

PORT = 10911


def sizes(content: str) -> dict[str, int]:
    """Bytes by letter of what `node.Node.read` answers."""
    found: dict[str, int] = {}
    for letter, _, size in (piece.partition("*") for piece in content.split()):
        found[letter] = found.get(letter, 0) + int(size)
    return found


class Failed(Exception):
    """A command that ended with an OSError: `failed.errno` is the name, such as "ECONNREFUSED"."""

    def __init__(self, errno: str) -> None:
        super().__init__(errno)
        self.errno = errno


class Remote:
    """A process as the scenario sees it: `ask` and `tell` commands, and what it has reported so far."""

    def __init__(self, send: Callable[[Command], None], patience_s: float) -> None:
        self._send = send
        self._patience_s = patience_s
        self._answers: deque[asyncio.Future[Any]] = deque()
        self._changed = asyncio.Event()
        self._events: list[tuple[str, str, Any]] = []

    def tell(self, command: str, *arguments: Any, **options: Any) -> asyncio.Future[Any]:
        """Give a command; the future gets its answer, or Failed. A process that is stopped obeys it later."""
        answer = asyncio.get_running_loop().create_future()
        answer.add_done_callback(_look_at_error)
        self._answers.append(answer)
        self._send((command, list(arguments), options))
        return answer

    async def ask(self, command: str, *arguments: Any, **options: Any) -> Any:
        """Give a command and wait for its answer. Raises Failed."""
        return await asyncio.wait_for(self.tell(command, *arguments, **options), self._patience_s)

    async def fails(self, command: str, *arguments: Any, **options: Any) -> str | None:
        """The name of the errno with which a command ends; None if it does what it should."""
        try:
            await self.ask(command, *arguments, **options)
        except Failed as failed:
            return failed.errno
        return None

    def take(self, message: list[Any]) -> None:
        """A report of the process has come."""
        if message[0] in ("answer", "failed"):
            answer = self._answers.popleft()
            if not answer.done():
                if message[0] == "answer":
                    answer.set_result(message[1])
                else:
                    answer.set_exception(Failed(message[1]))
        else:
            self._events.append((message[0], message[1], message[2]))
            self._changed.set()

    def story(self, name: str) -> list[str]:
        """What happened to one connection, in order: kinds, "lost" with its errno; data once, however often it came."""
        answered: list[str] = []
        for of, kind, detail in self._events:
            text = f"lost {detail}" if kind == "lost" and detail else kind
            if of == name and not (kind == "data" and answered[-1:] == ["data"]):
                answered.append(text)
        return answered

    def errors(self, name: str) -> list[str | None]:
        """With what the syncs that were begun of this handle ended: names of errnos, None for success."""
        return [detail for of, kind, detail in self._events if (of, kind) == (name, "synced")]

    def order(self) -> list[str]:
        """What happened to whom, data once: "a data", "t timer"."""
        answered = [f"{name} {kind}" for name, kind, _ in self._events]
        return [
            text for number, text in enumerate(answered) if answered[number - 1 : number] != [text]
        ]

    def received(self, name: str) -> int:
        """How many bytes."""
        return max((size for size, _ in self._data(name)), default=0)

    def has(self, name: str, data: bytes) -> bool:
        """Whether this connection has received exactly this."""
        found = self._data(name)
        return (found[-1] if found else (0, 0)) == (len(data), crc32(data))

    def has_prefix(self, name: str, data: bytes) -> bool:
        """Whether what it has received is the beginning of this."""
        found = self._data(name)
        return not found or found[-1] == (len(data[: found[-1][0]]), crc32(data[: found[-1][0]]))

    def _data(self, name: str) -> list[tuple[int, int]]:
        return [
            (detail[0], detail[1])
            for of, kind, detail in self._events
            if (of, kind) == (name, "data")
        ]

    async def until(self, name: str, kind: str) -> None:
        """Wait for the first report of this kind ("lost" is any end). AssertionError says what came instead."""
        await self.until_true(lambda: (name, kind) in [(of, k) for of, k, _ in self._events])

    async def until_received(self, name: str, size: int) -> None:
        await self.until_true(lambda: self.received(name) >= size)

    async def until_true(self, is_so: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(self._patience_s):
                while not is_so():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"it did not happen; all that did: {self._events[-20:]}") from None


def _look_at_error(answer: asyncio.Future[Any]) -> None:
    """A command without a waiting caller may fail: its error counts as retrieved."""
    if not answer.cancelled():
        answer.exception()


class Host(ABC):
    """One machine: at most one process, an address, and a disk if the world was asked for disks."""

    address: str
    folder: str  # where the process may put files; it and its name are durable

    @abstractmethod
    async def start(self) -> Remote:
        """Start a process, which is ready for commands."""

    @abstractmethod
    async def kill(self) -> None:
        """SIGKILL."""

    @abstractmethod
    async def pause(self) -> None:
        """SIGSTOP."""

    @abstractmethod
    async def resume(self) -> None:
        """SIGCONT."""

    @abstractmethod
    async def power_cut(self) -> None:
        """Everything stops at once; peers hear nothing, and what was not synced may be lost."""

    @abstractmethod
    async def power_on(self) -> None:
        """Boot: the kernel has no connections, and files are as the disk has them."""

    @abstractmethod
    async def slow_disk(self) -> None:
        """Let an fsync of the process that runs take seconds, if it has dozens of places to write to."""

    @abstractmethod
    async def stall_disk(self) -> None:
        """Let a disk that is slow stand almost still, for what is in flight, too."""

    @abstractmethod
    async def end_slowness(self) -> None:
        """Let it be as fast again as it was."""

    @abstractmethod
    async def fail_in_flight(self) -> None:
        """Let what is on its way to new blocks of the disk fail from now on."""

    @abstractmethod
    async def fill_disk(self, free_bytes: int) -> None:
        """Leave about this much space."""

    @abstractmethod
    async def free_disk(self) -> None:
        """Give it back."""

    @abstractmethod
    async def fail_fsync(self) -> None:
        """Let the next write-back of data fail with EIO."""

    @abstractmethod
    async def mend_disk(self) -> None:
        """End that."""


class World(ABC):
    """`seeds` of the simulation say how often a scenario runs there; the real world runs it once."""

    server: Host
    client: Host
    is_simulated: bool

    @abstractmethod
    async def drop(self, source: Host, target: Host) -> None:
        """Drop what goes from one host to the other; the other direction is not touched."""

    @abstractmethod
    async def heal(self) -> None:
        """End every drop."""

    @abstractmethod
    async def give_up_soon(self) -> None:
        """Let connections give up after fewer retries, where they would take too long for a test."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def start(self) -> tuple[Remote, Remote]:
        """A process on the server, one on the client."""
        return await asyncio.gather(self.server.start(), self.client.start())

    async def connect(
        self, *, listening: dict[str, Any] | None = None, **connecting: Any
    ) -> tuple[Remote, Remote]:
        """A server and a client with one connection: "c" at the client, "s.1" at the server."""
        server, client = await self.start()
        await server.ask("listen", "s", self.server.address, PORT, **(listening or {}))
        await client.ask("connect", "c", self.server.address, PORT, **connecting)
        await server.until("s.1", "made")
        return server, client


Scenario = Callable[[World], Awaitable[Any]]
Play = Callable[..., list[Any]]


def played(scenario: Scenario) -> Callable[[Play], None]:
    """Makes a test of a scenario that needs no disk: the fixture `play` runs it."""

    def test(play: Play) -> None:
        play(scenario)

    test.__name__, test.__doc__ = scenario.__name__, scenario.__doc__
    return test
