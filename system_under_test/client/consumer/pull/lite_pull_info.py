"""Reports a polled consumer's state to administrators (RocketMQ: DefaultLitePullConsumerImpl.consumerRunningInfo)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from staticfire.system_under_test.client.consumer.queue_puller import PullParts
from staticfire.system_under_test.client.consumer.rebalance.assignment import Assignment
from staticfire.system_under_test.protocol.bodies_clients import ConsumerRunningInfo
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers_admin import ConsumerRunningInfoHeader
from staticfire.system_under_test.remoting import Connection
from staticfire.system_under_test.remoting.connection import not_supported


class LitePullInfo:
    """Answers code 307 only: no administrator can move the offsets or consume messages, only the application."""

    def __init__(
        self,
        group: str,
        properties: dict[str, str],
        parts: Callable[[], Sequence[PullParts]],
        assigned: Assignment,
        now_s: Callable[[], float],
    ) -> None:
        self._group = group
        self._properties = properties
        self._parts = parts
        self._assigned = assigned
        self._now_s = now_s

    def serve(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Raises ValueError."""
        if request.code != RequestCode.GET_CONSUMER_RUNNING_INFO:
            return not_supported(request)
        header = ConsumerRunningInfoHeader.from_ext(request.ext_fields)
        if header.consumer_group != self._group:
            remark = f"The Consumer Group <{header.consumer_group}> not exist in this consumer"
            return RemotingCommand.response(request, ResponseCode.SYSTEM_ERROR, remark)
        body = self.running_info().encode()
        return RemotingCommand.response(request, ResponseCode.SUCCESS, body=body)

    def running_info(self) -> ConsumerRunningInfo:
        parts = self._parts()
        return ConsumerRunningInfo(
            properties={
                "PROP_CONSUME_TYPE": "CONSUME_ACTIVELY",
                "PROP_CONSUMEORDERLY": "false",
                "PROP_CLIENT_VERSION": "V4_9_8",
                **self._properties,
            },
            subscription_set=[each.subscription.data() for each in parts],
            mq_table={
                queue: self._assigned.consumer(queue).info() for queue in self._assigned.queues
            },
            status_table={
                each.subscription.topic: each.figures.status(self._now_s()) for each in parts
            },
        )
