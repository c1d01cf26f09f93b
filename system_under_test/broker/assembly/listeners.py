"""The two ports on which a broker takes requests (RocketMQ, BrokerController: remotingServer, fastRemotingServer)."""

from __future__ import annotations

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import Connection, Handler, RemotingServer, TurnOutput
from staticfire.system_under_test.remoting.connection import OnClose, not_supported
from staticfire.system_under_test.runtime.env import Env

FAST_PORT_DISTANCE = 2  # RocketMQ: the "VIP channel" of clients is the port minus 2
FAST_KEYS_FROM = 1 << 40  # keys of connections are unique in the broker


class Listeners:
    """The main port serves all requests; the fast port all but pulls, which would delay the others."""

    def __init__(
        self,
        env: Env,
        config: BrokerConfig,
        handler: Handler,
        *,
        on_close: OnClose,
        turn_output: TurnOutput,
    ) -> None:
        self._env = env
        self._handler = handler
        host, port = config.listen_host, config.listen_port
        self._main = RemotingServer(
            env, host, port, handler, on_close=on_close, turn_output=turn_output
        )
        self._fast: RemotingServer | None = None
        if config.fast_port and port > FAST_PORT_DISTANCE:
            self._fast = RemotingServer(
                env,
                host,
                port - FAST_PORT_DISTANCE,
                self._handle_fast,
                on_close=on_close,
                first_key=FAST_KEYS_FROM,
                turn_output=turn_output,
            )

    async def start(self) -> None:
        """Listen on both ports. Raises CannotListen for the main port; a broker can do without the fast port."""
        await self._main.start()
        if self._fast is None:
            return
        try:
            await self._fast.start()
        except OSError as error:
            self._env.log.warning("no fast port", port=self._fast.port, error=str(error))
            self._fast = None

    async def stop(self) -> None:
        if self._fast is not None:
            await self._fast.stop()
        await self._main.stop()

    def _handle_fast(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | None:
        if request.code == RequestCode.PULL_MESSAGE:
            return not_supported(request)
        return self._handler(connection, request)
