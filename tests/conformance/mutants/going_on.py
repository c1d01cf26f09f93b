"""Mutants of the clauses about what a request leaves behind."""

from __future__ import annotations

from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from tests.conformance.mutants.mutant import answers, requests


@answers("RMQ-SND-13", RequestCode.SEND_MESSAGE)
def a_refusal_takes_an_offset(_: RemotingCommand, answer: RemotingCommand) -> RemotingCommand:
    if answer.ext_fields.get("queueOffset") == "1":
        answer.ext_fields["queueOffset"] = "2"
    return answer


@requests("RMQ-ADM-08", RequestCode.DELETE_TOPIC_IN_BROKER)
def a_deleted_topic_keeps_its_messages(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["topic"] = "another"
    return request


@requests("RMQ-OFF-10", RequestCode.DELETE_SUBSCRIPTIONGROUP)
def offsets_always_go_with_the_group(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["removeOffset"] = "true"
    return request


@requests("RMQ-OFF-10", RequestCode.DELETE_SUBSCRIPTIONGROUP)
def offsets_never_go_with_the_group(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["removeOffset"] = "false"
    return request


@requests("RMQ-TXN-12", RequestCode.SEND_MESSAGE)
def a_delayed_half_is_shown(request: RemotingCommand) -> RemotingCommand:
    if "DELAY" in request.ext_fields["properties"]:
        plain = request.ext_fields["properties"].replace("TRAN_MSG\x01true\x02", "")
        request.ext_fields |= {"properties": plain, "sysFlag": "0"}
    return request


@answers("RMQ-LPL-07", RequestCode.PULL_MESSAGE)
def a_wait_skips_a_message(_: RemotingCommand, answer: RemotingCommand) -> RemotingCommand:
    if answer.code == ResponseCode.PULL_NOT_FOUND:
        following = int(answer.ext_fields["nextBeginOffset"]) + 1
        answer.ext_fields["nextBeginOffset"] = str(following)
    return answer


@answers("RMQ-RCV-13", RequestCode.QUERY_CONSUMER_OFFSET)
def groups_begin_anew(_: RemotingCommand, answer: RemotingCommand) -> RemotingCommand:
    answer.ext_fields["offset"] = "0"
    return answer
