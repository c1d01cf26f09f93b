"""Makes pull requests and reads their answers (RocketMQ: PullAPIWrapper, MQClientAPIImpl.processPullResponse)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from staticfire.system_under_test.client.consumer.subscription import Subscription
from staticfire.system_under_test.client.errors import BrokerRefused
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.compression import inflate_body
from staticfire.system_under_test.protocol.headers import PullMessageHeader, PullMessageResponse
from staticfire.system_under_test.protocol.message import Message, decode_records

# Bits of sysFlag (RocketMQ: PullSysFlag)
COMMIT_FLAG = 1
SUSPEND_FLAG = 2
SUBSCRIPTION_FLAG = 4


class PullOutcome(Enum):
    FOUND = "found"
    NOTHING_NEW = "nothing new"
    NOTHING_MATCHED = "nothing matched"
    OFFSET_ILLEGAL = "offset illegal"


_OUTCOMES: dict[int, PullOutcome] = {
    ResponseCode.SUCCESS: PullOutcome.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullOutcome.NOTHING_NEW,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullOutcome.NOTHING_MATCHED,
    ResponseCode.PULL_OFFSET_MOVED: PullOutcome.OFFSET_ILLEGAL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PullAnswer:
    """The answer to a pull. Messages are in queue order; `next_offset` is the next offset to pull.

    `broker_id`: that of the replica that answered, if the caller of `read_answer` passed it.
    """

    outcome: PullOutcome
    messages: list[Message]
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int = 0  # broker id for the next pull
    broker_id: int = 0


def pull_command(
    group: str,
    queue: MessageQueue,
    subscription: Subscription,
    *,
    offset: int,
    count_max: int,
    commit_offset: int | None = None,
    hold_s: float = 0.0,
) -> RemotingCommand:
    """A pull that carries its own subscription, so that even a broker without our heartbeat can answer it.

    Args:
        commit_offset: offset that a master stores with the pull; None: store none.
        hold_s: how long the broker may wait for a message; 0 for not at all.
    """
    header = PullMessageHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=count_max,
        sys_flag=SUBSCRIPTION_FLAG
        | (SUSPEND_FLAG if hold_s else 0)
        | (0 if commit_offset is None else COMMIT_FLAG),
        commit_offset=commit_offset or 0,
        suspend_timeout_millis=int(hold_s * 1000),
        subscription=subscription.expression,
        sub_version=subscription.version_ms,
        expression_type=subscription.expression_type,
    )
    return RemotingCommand.request(RequestCode.PULL_MESSAGE, header.to_ext())


def read_messages(body: bytes) -> list[Message]:
    """The messages of a pull answer, with inflated bodies. Raises RecordError."""
    return [inflate_body(message) for message in decode_records(body)]


def read_answer(response: RemotingCommand, broker_id: int = 0) -> PullAnswer:
    """Read the answer to a pull.

    Raises:
        BrokerRefused: the code is not a pull result.
        ValueError: the answer breaks the protocol.
    """
    outcome = _OUTCOMES.get(response.code)
    if outcome is None:
        raise BrokerRefused(
            response.code, f"pull refused with code {response.code}: {response.remark}"
        )
    header = PullMessageResponse.from_ext(response.ext_fields)
    return PullAnswer(
        outcome=outcome,
        messages=read_messages(response.body) if outcome is PullOutcome.FOUND else [],
        next_offset=header.next_begin_offset,
        min_offset=header.min_offset,
        max_offset=header.max_offset,
        suggested_broker_id=header.suggest_which_broker_id,
        broker_id=broker_id,
    )
