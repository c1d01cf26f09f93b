"""Subscription groups: codes 200, 201, 207 (RocketMQ, AdminBrokerProcessor, SubscriptionGroupManager)."""

from __future__ import annotations

from staticfire.system_under_test.broker.administration.parts import AdminParts
from staticfire.system_under_test.broker.administration.topics_requests import TOPIC_QUEUES_MAX
from staticfire.system_under_test.broker.metadata.subscription_groups import group_name_error
from staticfire.system_under_test.broker.responses import SLAVE_REFUSAL, answer_error, answer_ok
from staticfire.system_under_test.protocol.bodies import SubscriptionGroupConfig
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers_admin import DeleteSubscriptionGroupHeader
from staticfire.system_under_test.remoting import Connection, Handler


class GroupRequests:
    """Handles administrators' requests about consumer groups."""

    def __init__(self, parts: AdminParts) -> None:
        self._parts = parts

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.put,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.all,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self.delete,
        }

    def put(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Create or change the settings of a consumer group."""
        if self._parts.config.is_slave:
            return answer_error(request, SLAVE_REFUSAL)
        group = SubscriptionGroupConfig.from_request(request.body)
        error = group_name_error(group.group_name)
        if error is not None:
            return answer_error(request, error)
        if not 0 <= group.retry_queue_nums <= TOPIC_QUEUES_MAX:
            text = (
                f"retryQueueNums is {group.retry_queue_nums}, allowed are 0 to {TOPIC_QUEUES_MAX}"
            )
            return answer_error(request, text)
        self._parts.groups.put(group)
        return answer_ok(request)

    def all(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return answer_ok(request, self._parts.groups.table())

    def delete(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Delete the settings of a group and, if requested, its offsets."""
        header = DeleteSubscriptionGroupHeader.from_ext(request.ext_fields)
        if self._parts.config.is_slave:
            return answer_error(request, SLAVE_REFUSAL)
        self._parts.groups.delete(header.group_name)
        self._parts.statistics.forget_group(header.group_name)
        if header.remove_offset:
            self._parts.offsets.forget_group(header.group_name)
        return answer_ok(request)
