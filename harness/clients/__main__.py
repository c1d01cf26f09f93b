"""`python -m harness.clients producer|consumer|admin`: one client as a process, told what to do by JSON lines.

docs/client-protocol.md says what the lines hold. The log goes to standard error. The end of standard input and SIGTERM
end the client gracefully. Exit status: 0 ended, 1 nobody reads what it says, 254 bad arguments or a bad line.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from harness.clients import configuration
from harness.clients.configuration import Configuration
from harness.clients.line_port import Check, LinePort, feed_from, read_first_line, write_all
from harness.clients.line_requests import CONSUMER, PRODUCER, checker
from harness.clients.lines import LineError, decode_line
from harness.clients.port import PortClosed
from system_under_test.env import Env
from system_under_test.real_env import make_env

EXIT_NOT_HEARD = 1
EXIT_BAD_INPUT = 254
STDIN, STDOUT, STDERR = 0, 1, 2
USAGE = (
    "usage: python -m harness.clients producer|consumer|admin, with JSON lines on standard input"
)

Serve = Callable[[Env, LinePort], Coroutine[Any, Any, None]]
Client = tuple[Check, Serve]


# Each imports what it needs and no more: clients are started often, and while others wait for them.


def make_producer(fields: Configuration) -> Client:
    config = configuration.producer_config(fields)
    from harness.clients.producer import serve_producer

    return checker("producer", PRODUCER), lambda env, port: serve_producer(env, config, port)


def make_consumer(fields: Configuration) -> Client:
    config, listening = configuration.consumer_config(fields)
    from harness.clients.consumer import ListenerControl, serve_consumer

    control = ListenerControl(listening.delay_s, listening.failing_share)
    serve: Serve = lambda env, port: serve_consumer(env, config, port, control)  # noqa: E731
    return checker("consumer", CONSUMER), serve


def make_admin(fields: Configuration) -> Client:
    configuration.check_admin(fields)
    from harness.clients.admin import ACTIONS, serve_admin

    return checker("admin", {name: {} for name in ACTIONS}), serve_admin


ROLES: dict[str, Callable[[Configuration], Client]] = {
    "producer": make_producer,
    "consumer": make_consumer,
    "admin": make_admin,
}


def run(arguments: list[str]) -> int:
    """Be the client that the arguments and the first line describe; returns the exit status."""
    if arguments in (["--help"], ["-h"]):
        print(__doc__)
        return 0
    if len(arguments) != 1 or arguments[0] not in ROLES:
        return complain(f"{' '.join(arguments) or 'nothing'} is no role; {USAGE}")
    output = take_output()
    try:
        line, rest = read_first_line(STDIN)
        fields = decode_line(line)
        check, serve = ROLES[arguments[0]](fields)
        port = LinePort(partial(write_all, output), check)
        port.feed(rest)
        env = make_env(fields.get("node", arguments[0]))
        asyncio.run(serve_until_the_end(serve(env, port), port))
    except LineError as error:
        return complain(str(error))
    except BrokenPipeError:
        complain("nobody reads what this client says")
        return EXIT_NOT_HEARD
    return 0


def complain(sentence: str) -> int:
    sys.stderr.write(f"python -m harness.clients: {sentence}.\n")
    return EXIT_BAD_INPUT


def take_output() -> int:
    """A descriptor of our own for what was standard output; whatever else is printed goes to standard error."""
    output = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)
    return output


async def serve_until_the_end(serving: Coroutine[Any, Any, None], port: LinePort) -> None:
    """SIGTERM and SIGINT cancel, which is an end like that of standard input. Raises LineError, OSError."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(serving)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    feed_from(STDIN, port)
    await asyncio.wait([task])
    if not task.cancelled() and not isinstance(task.exception(), PortClosed):
        task.result()


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
