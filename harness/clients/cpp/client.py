"""Runs RocketMQ's C++ client, driven by JSON lines.

    python -m staticfire.harness.clients.cpp.client producer|consumer

The lines are those of `python -m staticfire.harness.clients` (docs/client-protocol.md). The first line may also have
`log_folder`, below which the library writes its log; without it a temporary folder is used. The client needs the extra
`cpp-client` (PyPI's rocketmq 0.4.4, Linux on x86-64). What the library cannot do (batches, a given queue) is `fail`.
"""

from __future__ import annotations

import os
import sys

from staticfire.checkers.op_kinds.fields import TEXT
from staticfire.harness.clients import configuration
from staticfire.harness.clients.configuration import Configuration
from staticfire.harness.clients.consumer import ListenerControl
from staticfire.harness.clients.cpp.consumer import serve_cpp_consumer
from staticfire.harness.clients.cpp.library import Library
from staticfire.harness.clients.cpp.producer import serve_cpp_producer
from staticfire.harness.clients.line_client import MakeClient, Serve, run
from staticfire.harness.clients.line_port import Check
from staticfire.harness.clients.line_requests import CONSUMER, PRODUCER, checker
from staticfire.harness.clients.lines import check_value
from staticfire.harness.temporary import TemporaryFolder

LOG_FOLDER = "log_folder"


def make_producer(fields: Configuration) -> tuple[Check, Serve]:
    folder = _take_log_folder(fields)
    configuration.check_producer(fields)
    library = Library(folder)
    return checker("producer", PRODUCER), lambda env, port: serve_cpp_producer(
        library, fields, port
    )


def make_consumer(fields: Configuration) -> tuple[Check, Serve]:
    folder = _take_log_folder(fields)
    listening = configuration.check_consumer(fields)
    control = ListenerControl(listening.delay_s, listening.failing_share)
    library = Library(folder)
    return checker("consumer", CONSUMER), lambda env, port: serve_cpp_consumer(
        library, fields, port, control
    )


def _take_log_folder(fields: Configuration) -> str:
    """Raises LineError."""
    folder = fields.pop(LOG_FOLDER, None)
    if folder is not None:
        check_value(f"{LOG_FOLDER!r} of the configuration", folder, TEXT)
        return str(folder)
    _temporary.append(TemporaryFolder("staticfire-cpp-client-"))
    return str(_temporary[0].make())


_temporary: list[TemporaryFolder] = []
ROLES: dict[str, MakeClient] = {"producer": make_producer, "consumer": make_consumer}


def main() -> None:
    status = run("python -m staticfire.harness.clients.cpp.client", sys.argv[1:], ROLES, __doc__)
    for folder in _temporary:
        folder.remove()
    sys.stderr.flush()
    os._exit(
        status
    )  # threads of the library may still run, and must not meet an interpreter that ends


if __name__ == "__main__":
    main()
