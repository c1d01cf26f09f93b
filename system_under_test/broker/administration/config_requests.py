"""Options of the broker: codes 25 and 26 (RocketMQ, AdminBrokerProcessor)."""

from __future__ import annotations

from staticfire.system_under_test.broker.administration.live_config import BlackListed
from staticfire.system_under_test.broker.administration.parts import AdminParts
from staticfire.system_under_test.broker.responses import answer_error, answer_ok
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import Connection, Handler


class ConfigRequests:
    """Handles requests to read and change the options of a running broker."""

    def __init__(self, parts: AdminParts) -> None:
        self._live = parts.live_config

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.UPDATE_BROKER_CONFIG: self.update,
            RequestCode.GET_BROKER_CONFIG: self.get,
        }

    def update(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Change options; an empty body changes nothing. Raises OSError if the options file cannot be rewritten."""
        if not request.body:
            return answer_ok(request)
        try:
            text = request.body.decode()
        except UnicodeDecodeError as error:
            return answer_error(request, f"the options are not UTF-8: {error}")
        try:
            self._live.update(text)
        except BlackListed as error:
            return RemotingCommand.response(request, ResponseCode.NO_PERMISSION, str(error))
        except ValueError as error:
            return answer_error(request, str(error))
        return answer_ok(request)

    def get(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """All options as a `.properties` text, and the version of the table."""
        version = json_dialect.dumps(self._live.version.to_json()).decode()
        return RemotingCommand.response(
            request, ResponseCode.SUCCESS, None, {"version": version}, self._live.text().encode()
        )
