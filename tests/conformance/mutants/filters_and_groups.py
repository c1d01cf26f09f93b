"""Mutants of RMQ-FLT and RMQ-RBL."""

from __future__ import annotations

import json

import pytest

from staticfire.harness.conformance.wire import Wire
from staticfire.system_under_test.broker.assembly import listeners
from staticfire.system_under_test.broker.clients import clients
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting.connection import Connection
from staticfire.system_under_test.remoting.server import RemotingServer
from tests.conformance.mutants.mutant import Answer, answers, requests, system


@requests("RMQ-FLT-05", RequestCode.SEND_MESSAGE)
def a_property_without_a_value_is_blank(request: RemotingCommand) -> RemotingCommand:
    if request.ext_fields["properties"].endswith("\x01"):
        request.ext_fields["properties"] += " "
    return request


@requests("RMQ-FLT-01", RequestCode.PULL_MESSAGE)
def only_the_first_tag(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["subscription"] = request.ext_fields["subscription"].partition("||")[0]
    return request


@requests("RMQ-FLT-01", RequestCode.PULL_MESSAGE)
def tags_that_match_nothing_take_all(request: RemotingCommand) -> RemotingCommand:
    if request.ext_fields["subscription"] == "yellow":
        request.ext_fields["subscription"] = "*"
    return request


@requests("RMQ-FLT-08", RequestCode.PULL_MESSAGE)
def a_pull_that_commits_takes_everything(request: RemotingCommand) -> RemotingCommand:
    if request.ext_fields["sysFlag"] == "1":
        request.ext_fields["sysFlag"] = "5"  # with the subscription of the request, which is *
    return request


@answers("RMQ-FLT-03", RequestCode.CHECK_CLIENT_CONFIG)
def every_expression_is_fine(_: RemotingCommand, answer: Answer) -> Answer:
    answer.code = ResponseCode.SUCCESS
    return answer


def expression_instead(request: RemotingCommand, old: str, new: str) -> RemotingCommand:
    """A heartbeat with another expression."""
    request.body = request.body.replace(
        json.dumps(old)[1:-1].encode(), json.dumps(new)[1:-1].encode()
    )
    return request


@requests("RMQ-FLT-04", RequestCode.HEART_BEAT)
def between_leaves_its_ends_out(request: RemotingCommand) -> RemotingCommand:
    return expression_instead(request, "a BETWEEN 5 AND 8", "a > 5 AND a < 8")


@requests("RMQ-FLT-04", RequestCode.HEART_BEAT)
def and_is_or(request: RemotingCommand) -> RemotingCommand:
    return expression_instead(request, "b = 'x' AND a = 7", "b = 'x' OR a = 7")


@requests("RMQ-FLT-05", RequestCode.HEART_BEAT)
def unknown_is_false(request: RemotingCommand) -> RemotingCommand:
    return expression_instead(request, "NOT (c > 1)", "TRUE")


@requests("RMQ-FLT-06", RequestCode.HEART_BEAT)
def text_is_above_every_number(request: RemotingCommand) -> RemotingCommand:
    return expression_instead(request, "a > 0", "a IS NOT NULL")


@answers("RMQ-FLT-07", RequestCode.CHECK_CLIENT_CONFIG)
def bad_expressions_are_errors(_: RemotingCommand, answer: Answer) -> Answer:
    if answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED:
        answer.code = ResponseCode.SYSTEM_ERROR
    return answer


@requests("RMQ-FLT-08", RequestCode.PULL_MESSAGE)
def versions_do_not_matter(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["subVersion"] = "0"
    return request


@requests("RMQ-FLT-09", RequestCode.PULL_MESSAGE)
def changed_filters_begin_anew(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["queueOffset"] = "0"
    return request


@answers("RMQ-RBL-01", RequestCode.GET_CONSUMER_LIST_BY_GROUP)
def only_one_member_is_listed(_: RemotingCommand, answer: Answer) -> Answer:
    if answer.body:
        listed = json.loads(answer.body)["consumerIdList"]
        answer.body = json.dumps({"consumerIdList": listed[:1]}).encode()
    return answer


@system("RMQ-RBL-02")
def members_are_not_notified(patch: pytest.MonkeyPatch) -> None:
    received = Wire._received

    def deaf(self: Wire, command: RemotingCommand) -> None:
        if command.code != RequestCode.NOTIFY_CONSUMER_IDS_CHANGED or command.is_response:
            received(self, command)

    patch.setattr(Wire, "_received", deaf)


@system("RMQ-RBL-02")
def second_port_is_another_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(listeners, "FAST_PORT_DISTANCE", 3)


@system("RMQ-RBL-02")
def last_connection_of_a_port_stays(patch: pytest.MonkeyPatch) -> None:
    lost = RemotingServer._lost

    def all_but_the_last(self: RemotingServer, connection: Connection) -> None:
        if len(self._connections) > 1:
            lost(self, connection)

    patch.setattr(RemotingServer, "_lost", all_but_the_last)


@system("RMQ-RBL-03")
def silent_members_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(clients, "CLIENT_EXPIRY_NS", 100_000 * 1_000_000_000)


@system("RMQ-RBL-03")
def silent_members_leave_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(clients, "CLIENT_EXPIRY_NS", 60 * 1_000_000_000)


@requests("RMQ-RBL-06", RequestCode.UNREGISTER_CLIENT)
def members_stay_until_they_close(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["consumerGroup"] = "another"
    return request
