"""Maps request codes to their handlers (RocketMQ, BrokerController.registerProcessor)."""

from __future__ import annotations

from collections.abc import Mapping

from staticfire.system_under_test.broker.clients.client_requests import ClientRequests
from staticfire.system_under_test.broker.pulling.pull import PullProcessor
from staticfire.system_under_test.broker.queries.message_queries import MessageQueries
from staticfire.system_under_test.broker.queries.queue_queries import QueueQueries
from staticfire.system_under_test.broker.replication.ha_requests import HaRequests
from staticfire.system_under_test.broker.sending.send import SendProcessor
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import Connection, Handler


def make_handlers(
    send: SendProcessor,
    pull: PullProcessor,
    queries: QueueQueries,
    messages: MessageQueries,
    clients: ClientRequests,
    admin: dict[int, Handler],
    ha: HaRequests,
) -> dict[int, Handler]:
    """Handlers by request code."""
    return {
        RequestCode.SEND_MESSAGE: send.handle,
        RequestCode.SEND_MESSAGE_V2: send.handle,
        RequestCode.SEND_BATCH_MESSAGE: send.handle,
        RequestCode.PULL_MESSAGE: pull.handle,
        RequestCode.QUERY_CONSUMER_OFFSET: queries.query_consumer_offset,
        RequestCode.UPDATE_CONSUMER_OFFSET: queries.update_consumer_offset,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: queries.search_offset,
        RequestCode.GET_MAX_OFFSET: queries.max_offset,
        RequestCode.GET_MIN_OFFSET: queries.min_offset,
        RequestCode.GET_EARLIEST_MSG_STORETIME: queries.earliest_store_time,
        RequestCode.QUERY_MESSAGE: messages.query,
        RequestCode.VIEW_MESSAGE_BY_ID: messages.view,
        RequestCode.HEART_BEAT: clients.heartbeat,
        RequestCode.UNREGISTER_CLIENT: clients.unregister,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP: clients.consumer_list,
        **admin,
        RequestCode.LIFT_CATCH_UP: ha.lift_catch_up,
    }


# Requests that a master with a new disk answers before it has restored its metadata.
ALWAYS_SERVED = (RequestCode.GET_BROKER_RUNTIME_INFO, RequestCode.LIFT_CATCH_UP)


def refuse_while_restoring(handlers: Mapping[int, Handler]) -> dict[int, Handler]:
    """A table that refuses all requests that depend on topics, groups, offsets or messages."""
    return {
        code: handler if code in ALWAYS_SERVED else _refuse for code, handler in handlers.items()
    }


def _refuse(_: Connection, request: RemotingCommand) -> RemotingCommand:
    return RemotingCommand.response(
        request,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "this master has a new disk and fetches what its slaves have; it serves nothing until then",
    )
