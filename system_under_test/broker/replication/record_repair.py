"""Repairs records that the disk has changed with copies of other replicas, whose logs have the same bytes.

If every replica has answered and none has a sound copy, the message is lost, and consumers skip it. RocketMQ serves
it as it is: its clients see a wrong checksum, and brokers repair nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import ViewMessageHeader
from staticfire.system_under_test.remoting import RemotingClient, RemotingError, parse_address
from staticfire.system_under_test.runtime.ending import end_tasks, until_ended
from staticfire.system_under_test.runtime.env import Log
from staticfire.system_under_test.store.assembly.message_store import MessageStore

ASK_TIMEOUT_S = 3.0
# How long an answer waits for repairs. Two replicas with the same damage ask each other: each must answer in time that
# it has no copy, or neither would ever give up the record.
ANSWER_AFTER_S = 2.0


class RecordRepair:
    """Repairs damaged records of one store.

    `peers` are the HA addresses of the other replicas; `met` counts how often a reader has met damage. `on_damage` gets
    the physical offset of a damaged record. `on_settled` gets it when readers may go on, and whether the record is lost
    or repaired.
    """

    def __init__(
        self, client: RemotingClient, store: MessageStore, peers: Sequence[str], log: Log
    ) -> None:
        self._client = client
        self._store = store
        self._peers = peers
        self._log = log
        self._repairs: dict[int, asyncio.Task[None]] = {}  # by physical offset
        self._answers: dict[asyncio.Task[None], None] = {}
        self.met = 0
        self.on_damage: Callable[[int], None] = lambda _: None
        self.on_settled: Callable[[int, bool], None] = lambda _, __: None

    def damaged(self, physical_offset: int) -> None:
        """Begin to repair a record, unless that is under way. After a failed attempt, the next read begins another."""
        self.met += 1
        self.on_damage(physical_offset)
        if physical_offset not in self._repairs:
            repair = asyncio.get_running_loop().create_task(self._repair(physical_offset))
            self._repairs[physical_offset] = repair
            repair.add_done_callback(lambda _: self._repairs.pop(physical_offset))

    def when_settled(self, answer: Callable[[], None]) -> None:
        """Call `answer` when the repairs now under way have ended, and after ANSWER_AFTER_S at the latest."""
        waiting = asyncio.get_running_loop().create_task(self._settle(answer))
        self._answers[waiting] = None
        waiting.add_done_callback(self._answers.pop)

    async def _settle(self, answer: Callable[[], None]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_AFTER_S):
                await until_ended(self._repairs.values())
        answer()

    async def _repair(self, physical_offset: int) -> None:
        silent = 0
        for peer in self._peers:
            try:
                record = await self._fetch(peer, physical_offset)
                if self._store.mend_record(physical_offset, record):
                    self._log.warning("damaged record was mended", at=physical_offset, peer=peer)
                    self.on_settled(physical_offset, False)
                    return
            except (RemotingError, ValueError, OSError) as error:
                silent += not isinstance(error, ValueError)
                self._log.info("no copy of a damaged record", peer=peer, error=str(error))
        self._log.error("record is damaged", at=physical_offset, peers=len(self._peers))
        if not silent:
            self._store.give_up(physical_offset)
            self.on_settled(physical_offset, True)

    async def _fetch(self, peer: str, physical_offset: int) -> bytes:
        """Like `_ask`, but try twice: the first connection may be one to a former process of the peer.

        Raises RemotingError, ValueError.
        """
        try:
            return await self._ask(peer, physical_offset)
        except RemotingError:
            return await self._ask(peer, physical_offset)

    async def _ask(self, peer: str, physical_offset: int) -> bytes:
        """Fetch the record from a replica. Raises RemotingError; ValueError if it has none."""
        host, ha_port = parse_address(peer)
        address = f"{host}:{ha_port - 1}"  # RocketMQ: the HA port is the one after the main port
        header = ViewMessageHeader(offset=physical_offset)
        request = RemotingCommand.request(RequestCode.VIEW_MESSAGE_BY_ID, header.to_ext())
        response = await self._client.invoke(address, request, ASK_TIMEOUT_S, close_on_timeout=True)
        if response.code != ResponseCode.SUCCESS:
            raise ValueError(f"{address} answered code {response.code}: {response.remark}")
        return response.body

    async def stop(self) -> None:
        """Cancel the repairs under way."""
        await end_tasks([*self._repairs.values(), *self._answers])
