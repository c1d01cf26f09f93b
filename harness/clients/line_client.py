"""Runs a client process: reads arguments and the first line, handles signals, and returns an exit status."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping

from staticfire.harness.clients.configuration import Configuration, tls_of
from staticfire.harness.clients.line_port import Check, LinePort, Output, feed_from, read_first_line
from staticfire.harness.clients.lines import LineError, decode_line
from staticfire.harness.clients.port import PortClosed
from staticfire.system_under_test.runtime.env import Env
from staticfire.system_under_test.runtime.real_env import make_env

EXIT_FAILED = 1
EXIT_BAD_INPUT = 254
STDIN, STDOUT, STDERR = 0, 1, 2

Serve = Callable[[Env, LinePort], Coroutine[object, object, None]]
MakeClient = Callable[[Configuration], tuple[Check, Serve]]  # raises LineError, ClientFailed


class ClientFailed(Exception):
    """The client cannot continue; the text is one sentence without a full stop."""


def run(
    program: str, arguments: list[str], roles: Mapping[str, MakeClient], help: str | None
) -> int:
    """Run the client that arguments and first line describe; return the exit status.

    0: ended gracefully; 1: failed, or its output is closed; 254: bad arguments or a bad line.
    """
    if arguments in (["--help"], ["-h"]):
        print(help)
        return 0
    if len(arguments) != 1 or arguments[0] not in roles:
        usage = f"usage: {program} {'|'.join(roles)}, with JSON lines on standard input"
        return _complain(program, f"{' '.join(arguments) or 'nothing'} is no role; {usage}")
    output = take_output()
    try:
        line, rest = read_first_line(STDIN)
        fields = decode_line(line)
        check, serve = roles[arguments[0]](fields)
        port = LinePort(output, check)
        port.feed(rest)
        env = make_env(fields.get("node", arguments[0]), tls_of(fields))
        asyncio.run(_serve_until_the_end(serve(env, port), port))
    except LineError as error:
        return _complain(program, str(error))
    except ClientFailed as error:
        _complain(program, str(error))
        return EXIT_FAILED
    except BrokenPipeError:
        _complain(program, "the output of this client is closed")
        return EXIT_FAILED
    return 0


def _complain(program: str, sentence: str) -> int:
    sys.stderr.write(f"{program}: {sentence}.\n")
    return EXIT_BAD_INPUT


def take_output() -> Output:
    """Reserve standard output for lines of the protocol; all other prints go to standard error."""
    descriptor = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)
    return Output(descriptor)


async def _serve_until_the_end(serving: Coroutine[object, object, None], port: LinePort) -> None:
    """Serve until the end of standard input, SIGTERM or SIGINT. Raises what the client raises."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(serving)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    feed_from(STDIN, port)
    await asyncio.wait([task])
    if not task.cancelled() and not isinstance(task.exception(), PortClosed):
        task.result()
