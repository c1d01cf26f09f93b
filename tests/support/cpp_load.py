"""RocketMQ's C++ client as a load in a process of its own: `python -m tests.support.cpp_load NAME_SERVERS TOPIC`.

It sends message after message and consumes the topic until its standard input ends, and tells in lines what it saw:
`acked N`, `failed N`, `got N`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[2]
IS_INSTALLED = find_spec("rocketmq") is not None
SEND_TIMEOUT_MS = 500
CONSUMER = "consumer"  # the end of its client id
PAUSE_S = 0.005
WAIT_S = 60.0


class CppLoad:
    """The load as its parent sees it. Wait for what you need; nothing sleeps."""

    def __init__(self, name_servers: str, topic: str) -> None:
        self.seen: dict[str, list[int]] = {"acked": [], "failed": [], "got": []}
        self._changed = threading.Condition()
        self._folder = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.cpp_load", name_servers, topic],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "HOME": self._folder.name},  # it keeps logs and offsets there
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            what, _, number = line.partition(" ")
            if what in self.seen:
                with self._changed:
                    self.seen[what].append(int(number))
                    self._changed.notify_all()

    def wait_until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(is_so, WAIT_S):
                raise TimeoutError(f"{what}: not after {WAIT_S} s; {self.counts()}")

    def wait_for_more(self, what: str, count: int = 1) -> None:
        """Wait for so many more lines of this kind."""
        wanted = len(self.seen[what]) + count
        self.wait_until(f"{count} more {what}", lambda: len(self.seen[what]) >= wanted)

    def counts(self) -> dict[str, int]:
        return {what: len(numbers) for what, numbers in self.seen.items()}

    def finish(self) -> None:
        """End the sends, and wait until everything acknowledged has arrived."""
        assert self._process.stdin is not None
        self._process.stdin.write("enough\n")
        self._process.stdin.flush()
        self.wait_until(
            "everything acknowledged arrives",
            lambda: set(self.seen["acked"]) <= set(self.seen["got"]),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # its shutdown takes seconds
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._folder.cleanup()


def main(name_servers: str, topic: str) -> None:
    from rocketmq.client import Message, Producer, PushConsumer, SendStatus  # type: ignore[import-untyped,unused-ignore]

    def say(what: str, number: int) -> None:
        os.write(1, f"{what} {number}\n".encode())

    producer = Producer("cpp-producers", timeout=SEND_TIMEOUT_MS)
    consumer = PushConsumer("cpp-group")
    for client in (producer, consumer):
        client.set_namesrv_addr(name_servers)
    consumer.set_instance_name(CONSUMER)  # so that each has connections of its own
    consumer.subscribe(topic, lambda message: say("got", int(message.body)))
    producer.start()
    consumer.start()
    enough = threading.Event()

    def listen() -> None:
        sys.stdin.readline()
        enough.set()

    threading.Thread(target=listen, daemon=True).start()
    number = 0
    while not enough.is_set():
        message = Message(topic)
        message.set_body(str(number))
        try:
            is_acked = producer.send_sync(message).status is SendStatus.OK
        except Exception:
            is_acked = False
        say("acked" if is_acked else "failed", number)
        number += 1
        time.sleep(PAUSE_S)
    threading.Event().wait()  # until it is killed: the consumer has threads of its own


if __name__ == "__main__":
    main(*sys.argv[1:])
