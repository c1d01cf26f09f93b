"""Our administrator's library as a client under test: the functions behind the commands of `staticfire admin`.

`python -m staticfire.harness.conformance.clients.administrator administrator` is such a client as a process.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence

from staticfire.harness.clients.configuration import Configuration, check_admin
from staticfire.harness.clients.line_client import Serve, run
from staticfire.harness.clients.line_port import Check
from staticfire.harness.clients.line_requests import checker
from staticfire.harness.clients.port import ClientSide, Outcome, Request
from staticfire.harness.conformance.client import ADMINISTRATOR
from staticfire.system_under_test.admin import (
    AdminClient,
    AdminError,
    access,
    brokers,
    messages,
    traces,
)
from staticfire.system_under_test.runtime.env import Env

TRACES_MAX = 32  # messages of the trace topic


async def serve_administrator(env: Env, name_servers: Sequence[str], port: ClientSide) -> None:
    """Carry out requests one at a time until the process ends.

    Raises PortClosed once there are no more requests.
    """
    async with AdminClient(env, name_servers) as admin:
        port.emit("ok", "open", {}, None)
        while True:
            request, reply = await port.next()
            try:
                found = await ACTIONS[request["f"]](admin, request)
            except AdminError as error:
                reply(Outcome("fail", {}, str(error)))
            else:
                reply(Outcome("ok", {"found": found}))


async def _master(admin: AdminClient, request: Request) -> object:
    return await admin.master(request["broker"])


async def _brokers(admin: AdminClient, request: Request) -> object:
    return [broker.broker_name for broker in await admin.brokers(request["cluster"])]


async def _by_unique_key(admin: AdminClient, request: Request) -> object:
    found = await messages.by_unique_key(admin, request["topic"], request["key"])
    return [message.body.decode() for message in found]


async def _trace(admin: AdminClient, request: Request) -> object:
    """Return how each event of a message ended, where the message was stored, and by which client."""
    events, unreadable = await traces.of_message(
        admin, request["topic"], request["key"], count_max=TRACES_MAX
    )
    rows = [[one.status, one.offset_message_id, one.client_host] for one in events]
    return {"events": rows, "unreadable": unreadable}


async def _put_account(admin: AdminClient, request: Request) -> object:
    await access.put_account(admin, request["address"], request["account"])
    return None


async def _consume_stats(admin: AdminClient, request: Request) -> object:
    return (await brokers.consume_stats(admin, request["address"])).broker_addr


ACTIONS: dict[str, Callable[[AdminClient, Request], Awaitable[object]]] = {
    "master": _master,
    "brokers": _brokers,
    "by_unique_key": _by_unique_key,
    "trace": _trace,
    "put_account": _put_account,
    "consume_stats": _consume_stats,
}


def make_administrator(fields: Configuration) -> tuple[Check, Serve]:
    """Raises LineError."""
    check_admin(fields)
    return (
        checker(ADMINISTRATOR, {name: {} for name in ACTIONS}),
        lambda env, port: serve_administrator(env, fields["name_servers"], port),
    )


if __name__ == "__main__":
    roles = {ADMINISTRATOR: make_administrator}
    sys.exit(run(f"python -m {__spec__.name}", sys.argv[1:], roles, __doc__))
