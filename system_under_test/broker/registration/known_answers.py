"""Delays answers to changes until name servers know them (RocketMQ: AdminBrokerProcessor registers first)."""

from __future__ import annotations

from collections.abc import Mapping

from staticfire.system_under_test.broker.registration.name_server_calls import KeepsRegistered
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import Connection, Handler

# Requests that change topics or the broker's permission: administrators may query routes right after the answer.
CHANGES = (
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.UPDATE_BROKER_CONFIG,
)


def answered_once_known(
    handlers: Mapping[int, Handler], registration: KeepsRegistered
) -> dict[int, Handler]:
    """The table with the handlers of CHANGES wrapped: they answer once every name server has got the change."""
    return {
        code: _once_known(handler, registration) if code in CHANGES else handler
        for code, handler in handlers.items()
    }


def _once_known(handler: Handler, registration: KeepsRegistered) -> Handler:
    def handle(connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        response = handler(connection, request)
        if response is None or response.code != ResponseCode.SUCCESS:
            return response

        def answer() -> None:
            if not request.is_oneway:
                connection.send(response)

        registration.when_known(answer)
        return None

    return handle
