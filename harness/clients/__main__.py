"""`python -m staticfire.harness.clients producer|consumer|admin`: one client as a process, driven by JSON lines.

docs/client-protocol.md says what the lines hold. The log goes to standard error. The end of standard input and SIGTERM
end the client gracefully. Exit status: 0 ended, 1 failed or its output is closed, 254 bad arguments or a bad line.
"""

from __future__ import annotations

import dataclasses
import sys

from staticfire.harness.clients import configuration
from staticfire.harness.clients.admin import ACTIONS, serve_admin
from staticfire.harness.clients.configuration import Configuration
from staticfire.harness.clients.consumer import ListenerControl, serve_consumer
from staticfire.harness.clients.line_client import MakeClient, Serve, run
from staticfire.harness.clients.line_port import Check
from staticfire.harness.clients.line_requests import CONSUMER, PRODUCER, checker
from staticfire.harness.clients.producer import serve_producer

# Each client imports only the modules that it needs, since clients start often, and runs wait for them.


def make_producer(fields: Configuration) -> tuple[Check, Serve]:
    config = configuration.producer_config(fields)
    accounts = fields.get("accounts", {})

    return (
        checker("producer", PRODUCER, accounts),
        lambda env, port: serve_producer(env, config, port, accounts),
    )


def make_consumer(fields: Configuration) -> tuple[Check, Serve]:
    config, listening = configuration.consumer_config(fields)
    control = ListenerControl(**dataclasses.asdict(listening))
    return (
        checker("consumer", CONSUMER),
        lambda env, port: serve_consumer(env, config, port, control),
    )


def make_admin(fields: Configuration) -> tuple[Check, Serve]:
    configuration.check_admin(fields)
    credentials = configuration.credentials_of(fields)
    return (
        checker("admin", {name: {} for name in ACTIONS}),
        lambda env, port: serve_admin(env, port, credentials),
    )


ROLES: dict[str, MakeClient] = {
    "producer": make_producer,
    "consumer": make_consumer,
    "admin": make_admin,
}

if __name__ == "__main__":
    sys.exit(run("python -m staticfire.harness.clients", sys.argv[1:], ROLES, __doc__))
