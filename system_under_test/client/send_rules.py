"""Interprets a broker's answer to a send: whether the message was stored, and whether to try again.

"Not stored" is a promise, so it covers only the codes that a broker returns before anything is in its commit log.
SYSTEM_ERROR is not one of them: it stands for any exception, including one after the append.
"""

from __future__ import annotations

from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.remoting import RemotingConnectError, RemotingError

NOT_STORED_CODES = frozenset(
    {
        ResponseCode.SYSTEM_BUSY,  # refused before or during queueing (RocketMQ: BrokerFastFailure)
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        ResponseCode.MESSAGE_ILLEGAL,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    }
)

# RocketMQ: DefaultMQProducer.retryResponseCodes (204 and 205 are never produced and left out).
RETRY_CODES = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
    }
)


def is_definitely_not_stored(failure: int | RemotingError) -> bool:
    """Whether a failed attempt has certainly stored nothing. `failure` is a response code or an error."""
    if isinstance(failure, RemotingError):
        return isinstance(failure, RemotingConnectError)  # the request never left this process
    return failure in NOT_STORED_CODES


def is_worth_retrying(failure: int | RemotingError) -> bool:
    """Whether another broker may do better: not if the message itself is wrong."""
    return isinstance(failure, RemotingError) or failure in RETRY_CODES
