"""Classes of requests, for each of which RocketMQ 4.9.8 has a thread pool with its own queue (BrokerController)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.protocol.codes import RequestCode

NS_PER_S = 1_000_000_000
UNBOUNDED = (1 << 31) - 1  # RocketMQ: a LinkedBlockingQueue without a capacity


class RequestClass(Enum):
    """The value is the prefix of the queue's lines in the answer to GET_BROKER_RUNTIME_INFO."""

    SEND = "sendThreadPool"
    PULL = "pullThreadPool"
    REPLY = "replyThreadPool"
    QUERY = "queryThreadPool"
    CLIENT_MANAGE = "clientManageThreadPool"
    CONSUMER_MANAGE = "consumerManageThreadPool"
    HEARTBEAT = "heartbeatThreadPool"
    END_TRANSACTION = "EndTransaction"
    ADMIN = "adminBrokerThreadPool"


# Every other code is ADMIN.
CLASSES: dict[int, RequestClass] = {
    RequestCode.SEND_MESSAGE: RequestClass.SEND,
    RequestCode.SEND_MESSAGE_V2: RequestClass.SEND,
    RequestCode.SEND_BATCH_MESSAGE: RequestClass.SEND,
    RequestCode.CONSUMER_SEND_MSG_BACK: RequestClass.SEND,
    RequestCode.PULL_MESSAGE: RequestClass.PULL,
    RequestCode.SEND_REPLY_MESSAGE: RequestClass.REPLY,
    RequestCode.SEND_REPLY_MESSAGE_V2: RequestClass.REPLY,
    RequestCode.QUERY_MESSAGE: RequestClass.QUERY,
    RequestCode.VIEW_MESSAGE_BY_ID: RequestClass.QUERY,
    RequestCode.HEART_BEAT: RequestClass.HEARTBEAT,
    RequestCode.UNREGISTER_CLIENT: RequestClass.CLIENT_MANAGE,
    RequestCode.CHECK_CLIENT_CONFIG: RequestClass.CLIENT_MANAGE,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: RequestClass.CONSUMER_MANAGE,
    RequestCode.UPDATE_CONSUMER_OFFSET: RequestClass.CONSUMER_MANAGE,
    RequestCode.QUERY_CONSUMER_OFFSET: RequestClass.CONSUMER_MANAGE,
    RequestCode.END_TRANSACTION: RequestClass.END_TRANSACTION,
}

# These append to the log: while it is stuck, they wait.
APPENDING = (RequestClass.SEND, RequestClass.REPLY, RequestClass.END_TRANSACTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """The capacity of one queue, and how many requests of the class are handled in one turn of the loop."""

    capacity: int  # requests
    wait_max_ns: int | None = None  # a request that has waited longer is refused; None: never
    burst: int = 1024


def make_limits(config: BrokerConfig) -> dict[RequestClass, QueueLimits]:
    """The limits of every class."""

    def wait_ns(seconds: float) -> int | None:
        return int(seconds * NS_PER_S) if config.fast_failure else None

    return {
        RequestClass.SEND: QueueLimits(
            capacity=config.send_queue_capacity, wait_max_ns=wait_ns(config.send_queue_wait_s)
        ),
        # An answer has up to 256 KiB: a client that pulls without reading must not fill the memory in one turn.
        RequestClass.PULL: QueueLimits(
            capacity=config.pull_queue_capacity,
            wait_max_ns=wait_ns(config.pull_queue_wait_s),
            burst=64,
        ),
        RequestClass.REPLY: QueueLimits(capacity=config.reply_queue_capacity),
        RequestClass.QUERY: QueueLimits(capacity=config.query_queue_capacity, burst=64),
        RequestClass.CLIENT_MANAGE: QueueLimits(capacity=config.client_manage_queue_capacity),
        RequestClass.CONSUMER_MANAGE: QueueLimits(capacity=config.consumer_manage_queue_capacity),
        RequestClass.HEARTBEAT: QueueLimits(
            capacity=config.heartbeat_queue_capacity,
            wait_max_ns=wait_ns(config.heartbeat_queue_wait_s),
        ),
        RequestClass.END_TRANSACTION: QueueLimits(
            capacity=config.transaction_queue_capacity,
            wait_max_ns=wait_ns(config.transaction_queue_wait_s),
        ),
        RequestClass.ADMIN: QueueLimits(capacity=UNBOUNDED),
    }
