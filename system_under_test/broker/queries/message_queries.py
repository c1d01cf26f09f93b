"""Requests for single messages, by key and by physical offset: codes 12 and 33 (RocketMQ, QueryMessageProcessor)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.replication.record_repair import RecordRepair
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import (
    QueryMessageHeader,
    QueryMessageResponse,
    ViewMessageHeader,
)
from staticfire.system_under_test.remoting import Connection
from staticfire.system_under_test.remoting.pieces import Pieces
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.index.key_search import KeyFound, KeyQuery, KeySearch

WORK_A_TURN = 10_000  # units of work of a search by key in one turn: tens of milliseconds


class MessageQueries:
    """Answers with stored records; the requester checks their keys, as hashes are not unique."""

    def __init__(
        self, config: BrokerConfig, store: MessageStore, repair: RecordRepair | None = None
    ) -> None:
        """`repair`: with it, the answer about a damaged record waits for the attempt to repair it."""
        self._config = config
        self._store = store
        self._repair = repair
        self._pieces = Pieces()

    def query(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """The newest messages of a topic that have a key and were stored in a range of time.

        A long search goes on in later turns of the loop.
        """
        if self._pieces:
            return self._pieces.go_on(connection, request, self._begin)
        return self._begin(connection, request)

    def _begin(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        return self._go_on(connection, request, self._search_of(request), may_mend=True)

    def _go_on(
        self,
        connection: Connection,
        request: RemotingCommand,
        search: KeySearch,
        *,
        may_mend: bool,
        has_met: bool = False,
    ) -> RemotingCommand | None:
        """The answer, or None if it comes later.

        `has_met`: earlier turns met a damaged record. The search is then repeated once, after the attempt to repair it.
        """
        repair = self._repair
        met_before = repair.met if repair is not None else 0
        is_over = search.step(WORK_A_TURN)
        has_met = has_met or (repair is not None and repair.met != met_before)
        if not is_over:
            more = partial(self._go_on, search=search, may_mend=may_mend, has_met=has_met)
            return self._pieces.go_on(connection, request, more)
        if repair is not None and may_mend and has_met:
            again = partial(self._go_on, search=self._search_of(request), may_mend=False)
            repair.when_settled(lambda: connection.serve(request, again))
            return None
        return self._answer(request, search.found)

    def view(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Answer one stored record by its physical offset."""
        return self._mended(connection, lambda: self._view(request))

    def _mended(
        self, connection: Connection, answer: Callable[[], RemotingCommand]
    ) -> RemotingCommand | None:
        """The answer; None if it met a damaged record: then it is made again after the attempt to repair that."""
        repair = self._repair
        met_before = repair.met if repair is not None else 0
        found = answer()
        if repair is None or repair.met == met_before:
            return found
        repair.when_settled(lambda: connection.send(answer()))
        return None

    def _search_of(self, request: RemotingCommand) -> KeySearch:
        header = QueryMessageHeader.from_ext(request.ext_fields)
        count = header.max_num
        if header.unique_key_query == "true":
            count = self._config.unique_query_max
        return self._store.key_search(
            KeyQuery(
                header.topic,
                header.key,
                min(count, self._config.query_max),
                header.begin_timestamp,
                header.end_timestamp,
            )
        )

    def _answer(self, request: RemotingCommand, found: KeyFound) -> RemotingCommand:
        response = QueryMessageResponse(
            index_last_update_timestamp=found.last_update_ms,
            index_last_update_phyoffset=found.last_update_offset,
        )
        if found.records:
            return RemotingCommand.response(
                request,
                ResponseCode.SUCCESS,
                ext_fields=response.to_ext(),
                body=b"".join(found.records),
            )
        return RemotingCommand.response(
            request,
            ResponseCode.QUERY_NOT_FOUND,
            "can not find message, maybe time range not correct",
            response.to_ext(),
        )

    def _view(self, request: RemotingCommand) -> RemotingCommand:
        header = ViewMessageHeader.from_ext(request.ext_fields)
        record = self._store.look_up(header.offset)
        if record is None:
            return RemotingCommand.response(
                request,
                ResponseCode.SYSTEM_ERROR,
                f"can not find message by the offset, {header.offset}",
            )
        return RemotingCommand.response(request, ResponseCode.SUCCESS, body=record)
