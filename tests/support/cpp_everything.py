"""Everything that RocketMQ's C++ client can do, done once: `python -m tests.support.cpp_everything NAME_SERVERS`.

It runs in a process of its own, because the library cannot be trusted to end. It prints what it saw as one JSON object
a line, `{"what": ..., ...}`, the last one of which is `done`, and then waits to be killed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TOPIC, ORDERED, RETRIED, BROADCAST = "CppSends", "CppOrdered", "CppRetried", "CppBroadcast"
TOPICS = (TOPIC, ORDERED, RETRIED, BROADCAST)
RETRY_GROUP = "cpp-retry"
SENDS, ASYNC_SENDS, ONE_WAY, DELAYED, KEYS, PER_KEY = 5, 5, 5, 2, 4, 6
FIRST = 1  # message that the topic was created with
TRIES = 2  # that fail, of one message in order
SUCCESS, LATER = 0, 1  # CConsumeStatus
WAIT_S = 40.0
Report = list[dict[str, Any]]


def run(name_servers: str) -> Report:
    """What the client saw. Raises TimeoutError, with what it saw until then."""
    with tempfile.TemporaryDirectory() as home:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.cpp_everything", name_servers],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "HOME": home},  # it keeps logs and offsets there
        )
        timer = threading.Timer(WAIT_S, process.kill)
        timer.start()
        try:
            return list(_read(process))
        finally:
            timer.cancel()
            process.kill()  # its shutdown takes seconds
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def _read(process: subprocess.Popen[str]) -> Report:
    assert process.stdout is not None
    seen: Report = []
    for line in process.stdout:
        seen.append(json.loads(line))
        if seen[-1]["what"] == "done":
            return seen
    raise TimeoutError(f"the C++ client was not done after {WAIT_S} s; it saw {seen[-20:]}")


# --- in the process -------------------------------------------------------------------------------


class Watch:
    """Prints what happens, and waits for enough of it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._counts: dict[str, int] = {}

    def say(self, what: str, **fields: object) -> None:
        with self._changed:
            os.write(1, f"{json.dumps({'what': what, **fields})}\n".encode())
            self._counts[what] = self._counts.get(what, 0) + 1
            self._changed.notify_all()

    def wait(self, what: str, count: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._counts.get(what, 0) >= count)

    def has(self, what: str, count: int, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._counts.get(what, 0) >= count, timeout_s)


class Clients:
    """Makes the clients of the library; they live as long as the process."""

    def __init__(self, name_servers: str, watch: Watch) -> None:
        self._name_servers = name_servers
        self._watch = watch
        self._alive: list[object] = []

    def producer(self) -> Any:
        from rocketmq.client import Producer  # type: ignore[import-untyped,unused-ignore]

        producer = Producer("cpp-everything", timeout=3000)
        producer.set_namesrv_addr(self._name_servers)
        producer.start()
        self._alive.append(producer)
        return producer

    def consumer(
        self,
        what: str,
        group: str,
        topic: str,
        *,
        expression: str = "*",
        fails: Callable[[Any], bool] = lambda _: False,
        **options: Any,
    ) -> None:
        """Start a push consumer that says what it was given as `what`."""
        from rocketmq.client import PushConsumer, RecvMessage, dll, ffi_check

        consumer = PushConsumer(group, **options)
        consumer.set_namesrv_addr(self._name_servers)
        consumer.set_instance_name(what)
        consumer.set_message_batch_max_size(1)

        def listen(_consumer: int, handle: int) -> int:
            message = RecvMessage(handle)
            times = message.reconsume_times
            self._watch.say(
                what if times == 0 else f"{what} again",
                body=message.body.decode(),
                tags=(message.tags or b"").decode(),
                queue=message.queue_id,
                offset=message.queue_offset,
                times=times,
            )
            is_failure = fails(message)
            if is_failure:
                self._watch.say(f"{what} failed", body=message.body.decode())
            return LATER if is_failure else SUCCESS

        # Not through `subscribe` of the package: what an exception in its listener comes to is a matter of luck.
        ffi_check(dll.Subscribe(consumer._handle, topic.encode(), expression.encode()))
        consumer._register_callback(listen)
        consumer.start()
        self._alive.append(consumer)

    def pull(self, topic: str) -> list[str]:
        from rocketmq.client import PullConsumer

        consumer = PullConsumer("cpp-pull")
        consumer.set_namesrv_addr(self._name_servers)
        consumer.start()
        self._alive.append(consumer)
        return [message.body.decode() for message in consumer.pull(topic)]


def main(name_servers: str) -> None:
    watch = Watch()
    clients = Clients(name_servers, watch)
    clients.consumer("broadcast 1", "cpp-broadcast", BROADCAST, message_model=0)
    clients.consumer("broadcast 2", "cpp-broadcast", BROADCAST, message_model=0)
    producer = clients.producer()
    send_all(producer, watch)
    start_consumers(clients)
    total = SENDS + ASYNC_SENDS + ONE_WAY + DELAYED
    watch.wait("concurrent", total + FIRST)
    watch.wait("tagged", 1)
    watch.wait("orderly", KEYS * PER_KEY + TRIES + FIRST)
    for number in range(200):  # members of a broadcast group begin at the end of the queues
        send(producer, BROADCAST, f"b{number}")
        if watch.has("broadcast 1", 3, 0.02) and watch.has("broadcast 2", 3, 0.02):
            break
    watch.say("pulled", bodies=clients.pull(TOPIC))
    watch.wait("retried again", 1)
    watch.say("done")
    threading.Event().wait()  # until it is killed


def send(producer: Any, topic: str, body: str, tag: str | None = None) -> Any:
    return producer.send_sync(message(topic, body, tag))


def message(topic: str, body: str, tag: str | None = None) -> Any:
    from rocketmq.client import Message

    made = Message(topic)
    made.set_body(body)
    if tag is not None:
        made.set_tags(tag)
    return made


def send_all(producer: Any, watch: Watch) -> None:
    for number in range(SENDS):
        result = send(producer, TOPIC, f"sync{number}", "red" if number == 0 else "blue")
        watch.say("sent", status=int(result.status), offset=result.offset)
    for number in range(ASYNC_SENDS):
        producer.send_async(
            message(TOPIC, f"async{number}"),
            lambda result: watch.say("async sent", status=int(result.status)),
            lambda error: watch.say("async failed", error=str(error)),
        )
    for number in range(ONE_WAY):
        producer.send_oneway(message(TOPIC, f"oneway{number}"))
    for number in range(DELAYED):
        delayed = message(TOPIC, f"delayed{number}")
        delayed.set_delay_time_level(1)
        producer.send_sync(delayed)
    for number in range(PER_KEY):
        for key in range(KEYS):
            producer.send_orderly(message(ORDERED, f"{key}:{number}"), key)
    send(producer, RETRIED, "once more")


def start_consumers(clients: Clients) -> None:
    tries: list[str] = []

    def fails_twice(message: Any) -> bool:
        if message.body != b"2:3":
            return False
        tries.append("2:3")
        return len(tries) <= TRIES

    clients.consumer("concurrent", "cpp-concurrent", TOPIC)
    clients.consumer("tagged", "cpp-tagged", TOPIC, expression="red||green")
    clients.consumer("orderly", "cpp-orderly", ORDERED, orderly=True, fails=fails_twice)
    clients.consumer(
        "retried",
        RETRY_GROUP,
        RETRIED,
        fails=lambda message: message.body == b"once more" and message.reconsume_times == 0,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
