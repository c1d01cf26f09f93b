"""A consumer as brokers see one: it sends heartbeats and answers what they ask, from a script."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Self

from staticfire.system_under_test.protocol.bodies import (
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
)
from staticfire.system_under_test.protocol.bodies_clients import (
    ConsumeDirectlyResult,
    ConsumerRunningInfo,
)
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.json_dialect import dumps
from staticfire.system_under_test.remoting import Connection, RemotingClient
from staticfire.system_under_test.runtime.real_env import make_env

CLIENT_ID = "127.0.0.1@scripted"


class ScriptedConsumer:
    """Member of one group on these brokers while the `with` block lasts; `asked` has the codes that came."""

    def __init__(self, brokers: Sequence[str], group: str, topic: str, tags: str = "*") -> None:
        self._brokers = brokers
        wanted = [] if tags == "*" else tags.split(" || ")
        self._data = ConsumerData(
            group_name=group,
            subscriptions=[SubscriptionData(topic=topic, sub_string=tags, tags_set=wanted)],
        )
        self.asked: list[int] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._greet(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._client.close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _greet(self) -> None:
        self._client = RemotingClient(make_env("scripted-consumer"), on_request=self._serve)
        body = dumps(HeartbeatData(client_id=CLIENT_ID, consumers=[self._data]).to_json())
        for address in self._brokers:
            request = RemotingCommand.request(RequestCode.HEART_BEAT, body=body)
            answer = await self._client.invoke(address, request, 5)
            assert answer.code == ResponseCode.SUCCESS, answer.remark

    def _serve(self, _: Connection, request: RemotingCommand) -> RemotingCommand | None:
        self.asked.append(request.code)
        if request.is_oneway:
            return None
        match request.code:
            case RequestCode.GET_CONSUMER_RUNNING_INFO:
                info = ConsumerRunningInfo(
                    properties={"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"},
                    subscription_set=self._data.subscriptions,
                )
                body = info.encode()
            case RequestCode.CONSUME_MESSAGE_DIRECTLY:
                body = ConsumeDirectlyResult(consume_result="CR_SUCCESS").encode()
            case _:
                body = b"{}"
        return RemotingCommand.response(request, ResponseCode.SUCCESS, body=body)
