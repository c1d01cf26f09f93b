"""Requests for single messages, by key and by physical offset: codes 12 and 33 (RocketMQ, QueryMessageProcessor)."""

from __future__ import annotations

from collections.abc import Callable

from system_under_test.broker.config import BrokerConfig
from system_under_test.broker.replication.record_repair import RecordRepair
from system_under_test.protocol.codes import ResponseCode
from system_under_test.protocol.command import RemotingCommand
from system_under_test.protocol.headers import (
    QueryMessageHeader,
    QueryMessageResponse,
    ViewMessageHeader,
)
from system_under_test.remoting import Connection
from system_under_test.store.key_search import KeyQuery
from system_under_test.store.message_store import MessageStore

__all__ = ["MessageQueries"]


class MessageQueries:
    """Answers with records as they are stored; the one who asked checks their keys, as hashes are not unique."""

    def __init__(
        self, config: BrokerConfig, store: MessageStore, repair: RecordRepair | None = None
    ) -> None:
        """`repair`: what is asked for and damaged is answered when it has been tried to mend it."""
        self._config = config
        self._store = store
        self._repair = repair

    def query(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """The newest messages of a topic that have a key and were stored in a range of time."""
        return self._mended(connection, lambda: self._query(request))

    def view(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """One stored record by its physical offset."""
        return self._mended(connection, lambda: self._view(request))

    def _mended(
        self, connection: Connection, answer: Callable[[], RemotingCommand]
    ) -> RemotingCommand | None:
        """The answer; None if it met a damaged record, and is given again when that was dealt with."""
        repair = self._repair
        met_before = repair.met if repair is not None else 0
        found = answer()
        if repair is None or repair.met == met_before:
            return found
        repair.when_settled(lambda: connection.send(answer()))
        return None

    def _query(self, request: RemotingCommand) -> RemotingCommand:
        header = QueryMessageHeader.from_ext(request.ext_fields)
        count = header.max_num
        if header.unique_key_query == "true":
            count = self._config.unique_query_max
        found = self._store.find_by_key(
            KeyQuery(
                header.topic,
                header.key,
                min(count, self._config.query_max),
                header.begin_timestamp,
                header.end_timestamp,
            )
        )
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
