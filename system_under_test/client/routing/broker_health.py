"""Tracks which brokers answer, and keeps asking the silent ones until they answer again.

A hung broker keeps its connections open but answers nothing, so no request fails at once. It is detected by

- a request that timed out, or (consumers) an unanswered pull and QUIET_S without any answer from it: either leads to a
  ping, and an unanswered ping means that the broker is silent;
- a connection that failed or ended: the broker is silent until a new connection has brought an answer.

One request to a silent broker is always pending. Once it is answered, the callers that avoided the broker are
notified. Both ping and request use code 38, which only reads: a frozen broker may run hundreds of them when it wakes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from staticfire.system_under_test.client.waiting import succeeded
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import ConsumerGroupHeader
from staticfire.system_under_test.remoting import RemotingClient, RemotingError, RemotingTimeout
from staticfire.system_under_test.runtime.ending import end_tasks
from staticfire.system_under_test.runtime.env import Log

QUIET_S = 1.5  # a broker that owes an answer and sends nothing for so long is pinged
PING_TIMEOUT_S = 1.0
PROBE_TIMEOUT_S = 3.0  # then the probe is repeated on a new connection
PROBE_PAUSE_S = 1.0  # after a failed connect
# A broker that came back has too few clients in its tables if it was restarted, or too many if it was cut off while
# some of them ended. It drops the latter after 120 s, checking every 10 s (RocketMQ: CHANNEL_EXPIRED_TIMEOUT).
SETTLING_S = 130.0
GREETING_S = 5.0  # within this time clients notice the return and register again


class BrokerHealth:
    """Tracks the brokers of one client, by address.

    Args:
        group: pings ask for the members of this group; any name will do.
        on_silent, on_back: called with the address.
    """

    def __init__(
        self,
        remoting: RemotingClient,
        log: Log,
        *,
        group: str,
        on_silent: Callable[[str], None],
        on_back: Callable[[str], None],
    ) -> None:
        self._remoting = remoting
        self._log = log
        self._group = group
        self._on_silent = on_silent
        self._on_back = on_back
        self._heard_at_s: dict[str, float] = {}
        self._back_at_s: dict[str, float] = {}
        self._pings: dict[str, asyncio.Future[RemotingCommand]] = {}
        self._probes: dict[str, asyncio.Task[None]] = {}
        self._is_stopped = False

    def is_answering(self, address: str) -> bool:
        return address not in self._probes

    def is_settling(self, address: str) -> bool:
        """Whether the broker has come back so recently that its list of clients may be wrong."""
        return self._came_within(address, SETTLING_S)

    def is_greeting(self, address: str) -> bool:
        """Whether the broker has come back so recently that clients may not have registered again yet."""
        return self._came_within(address, GREETING_S)

    def _came_within(self, address: str, seconds: float) -> bool:
        back_at_s = self._back_at_s.get(address)
        now_s = asyncio.get_running_loop().time()
        return back_at_s is not None and now_s - back_at_s < seconds

    def note_arrivals(self, addresses: Iterable[str]) -> None:
        """Record brokers that have just appeared in a route, maybe again."""
        now_s = asyncio.get_running_loop().time()
        for address in addresses:
            self._back_at_s[address] = now_s

    def lost(self, address: str) -> None:
        """The connection to the broker has ended without a pending request."""
        if address not in self._pings:
            self._begin_probing(address, "the connection ended")

    def heard(self, address: str) -> None:
        """The broker has just answered a request."""
        self._heard_at_s[address] = asyncio.get_running_loop().time()

    def failed(self, address: str, error: RemotingError) -> None:
        """A request to the broker has ended without an answer."""
        if isinstance(error, RemotingTimeout):
            self.ping(address)  # to tell a slow broker from a silent one
        else:
            self._begin_probing(address, str(error))

    def ping(self, address: str) -> None:
        """Ping the broker to see whether it answers at all, unless a ping or probe is pending."""
        if self._is_stopped or address in self._pings or address in self._probes:
            return
        ping = self._remoting.invoke_nowait(address, self._question(), PING_TIMEOUT_S)
        self._pings[address] = ping
        ping.add_done_callback(partial(self._pinged, address))

    def check_quiet(self, addresses: Iterable[str]) -> None:
        """Ping those of the brokers, all of which owe an answer, that have sent nothing for QUIET_S."""
        now_s = asyncio.get_running_loop().time()
        for address in addresses:
            if now_s - self._heard_at_s.setdefault(address, now_s) >= QUIET_S:
                self.ping(address)

    def retain(self, addresses: Iterable[str]) -> None:
        """Drop all other brokers: no route has them any more."""
        wanted = dict.fromkeys(addresses)
        for address in [known for known in self._probes if known not in wanted]:
            self._probes.pop(address).cancel()
        for times in (self._heard_at_s, self._back_at_s):
            for address in [known for known in times if known not in wanted]:
                del times[address]

    async def stop(self) -> None:
        self._is_stopped = True
        await end_tasks(self._probes.values())

    def _question(self) -> RemotingCommand:
        header = ConsumerGroupHeader(consumer_group=self._group)
        return RemotingCommand.request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header.to_ext())

    def _pinged(self, address: str, ping: asyncio.Future[RemotingCommand]) -> None:
        del self._pings[address]
        if succeeded(ping):
            self.heard(address)
        elif not ping.cancelled():
            self._begin_probing(address, str(ping.exception()))

    def _begin_probing(self, address: str, reason: str) -> None:
        if self._is_stopped or address in self._probes:
            return
        self._log.warning("broker is silent", address=address, reason=reason)
        self._probes[address] = asyncio.get_running_loop().create_task(self._probe(address))
        # Requests pending on the old connection fail now, so that their callers turn to another broker.
        self._remoting.close_connection(address)
        self._on_silent(address)

    async def _probe(self, address: str) -> None:
        while True:
            try:
                await self._remoting.invoke(
                    address, self._question(), PROBE_TIMEOUT_S, close_on_timeout=True
                )
                break
            except RemotingTimeout:
                continue
            except RemotingError:
                await asyncio.sleep(PROBE_PAUSE_S)
        del self._probes[address]
        self.heard(address)
        self._back_at_s[address] = asyncio.get_running_loop().time()
        self._log.info("broker answers again", address=address)
        self._on_back(address)
