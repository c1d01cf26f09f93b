"""Asks name servers, one of which may hang, for routes (RocketMQ: NettyRemotingClient's choice of name server).

RocketMQ asks one chosen name server, notices after 3 s that it hangs, and the caller gets an error. Here every query
goes to all of them at once:

- every answer within PATIENCE_S counts, and the routes are merged;
- a server that does not answer in time is *silent*: no query waits for it until it has answered one again. At most one
  query to it is pending at a time, on a connection of its own;
- "no such topic" (code 17) counts only when no other server has a route.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from staticfire.system_under_test.client.errors import NoNameServer
from staticfire.system_under_test.client.routing.routes import (
    BrokerRoute,
    BrokerRoutes,
    broker_routes,
    unite,
)
from staticfire.system_under_test.client.waiting import succeeded, wait_until
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import TopicRouteData
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import GetRouteInfoHeader
from staticfire.system_under_test.remoting import RemotingClient
from staticfire.system_under_test.runtime.env import Log

PATIENCE_S = 0.5  # how long a query waits for a server that has not been silent so far
ANSWER_TIMEOUT_S = 3.0  # RocketMQ: mqClientApiTimeout

Answer = asyncio.Future[RemotingCommand]


class NameServers:
    """The name servers of one client, in the configured order."""

    def __init__(self, remoting: RemotingClient, addresses: Sequence[str], log: Log) -> None:
        self._remoting = remoting
        self._addresses = tuple(addresses)
        self._log = log
        self._silent: dict[str, None] = {}
        self._open: dict[str, Answer] = {}  # the last query to each server, while unanswered
        self._decoded: dict[tuple[str, str], tuple[bytes, BrokerRoutes]] = {}

    @property
    def silent(self) -> list[str]:
        """The servers for which no query waits at the moment."""
        return list(self._silent)

    async def route(self, topic: str) -> dict[str, BrokerRoute] | None:
        """The merged routes of a topic; None if the servers that answered do not have it.

        Raises NoNameServer: none answered within ANSWER_TIMEOUT_S.
        """
        asked = self._ask_all(topic)
        answers = list(asked.values())
        trusted = [answer for address, answer in asked.items() if address not in self._silent]
        if trusted:
            await wait_until(trusted, lambda: False, PATIENCE_S)
        for address, answer in asked.items():
            if not answer.done():
                self._fell_silent(address)
        await wait_until(answers, lambda: any(map(succeeded, answers)), None)
        heard = {address: answer.result() for address, answer in asked.items() if succeeded(answer)}
        if not heard:
            raise NoNameServer(f"none of the name servers {', '.join(self._addresses)} answers")
        known = [
            self._decode(address, topic, answer.body)
            for address, answer in heard.items()
            if answer.code == ResponseCode.SUCCESS
        ]
        return unite(known) if any(known) else None

    def _ask_all(self, topic: str) -> dict[str, Answer]:
        """Query every server, except silent ones that still owe the answer to an earlier query."""
        free = [
            address
            for address in self._addresses
            if address not in self._silent or address not in self._open
        ]
        return {address: self._ask(address, topic) for address in free or self._addresses}

    def _ask(self, address: str, topic: str) -> Answer:
        header = GetRouteInfoHeader(topic=topic)
        command = RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header.to_ext())
        answer = self._remoting.invoke_nowait(
            address, command, ANSWER_TIMEOUT_S, close_on_timeout=True
        )
        self._open[address] = answer
        answer.add_done_callback(partial(self._answered, address))
        return answer

    def _answered(self, address: str, answer: Answer) -> None:
        if self._open.get(address) is answer:
            del self._open[address]
        if succeeded(answer):
            if address in self._silent:
                del self._silent[address]
                self._log.info("name server answers again", address=address)
        elif not answer.cancelled():
            self._fell_silent(address)

    def _fell_silent(self, address: str) -> None:
        if address not in self._silent:
            self._silent[address] = None
            self._log.warning("name server is silent", address=address)

    def _decode(self, address: str, topic: str, body: bytes) -> BrokerRoutes:
        """Decode an answer; servers mostly answer the same, so equal bodies are decoded once."""
        last = self._decoded.get((address, topic))
        if last is not None and last[0] == body:
            return last[1]
        try:
            route = broker_routes(TopicRouteData.from_json(json_dialect.loads(body)))
        except ValueError as error:
            self._log.warning("route cannot be read", address=address, error=str(error))
            return {}
        self._decoded[address, topic] = body, route
        return route
