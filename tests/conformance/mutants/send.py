"""Mutants of RMQ-SND."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.system_under_test.broker.append_pipeline import acknowledge
from staticfire.system_under_test.broker.metadata import topics
from staticfire.system_under_test.broker.sending.pending_sends import PendingSends
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import decode_records, encode_record
from tests.conformance.mutants.mutant import Answer, answers, requests, system


@requests("RMQ-SND-01", RequestCode.SEND_MESSAGE_V2)
def short_names_lose_properties(request: RemotingCommand) -> RemotingCommand:
    del request.ext_fields["i"]
    return request


@answers("RMQ-SND-02", RequestCode.SEND_MESSAGE)
def offsets_begin_at_one(_: RemotingCommand, answer: Answer) -> Answer:
    answer.ext_fields["queueOffset"] = str(int(answer.ext_fields["queueOffset"]) + 1)
    return answer


@answers("RMQ-SND-02", RequestCode.SEND_MESSAGE)
def ids_name_another_place(_: RemotingCommand, answer: Answer) -> Answer:
    answer.ext_fields["msgId"] = answer.ext_fields["msgId"][:-1] + "0"
    return answer


@requests("RMQ-SND-03", RequestCode.SEND_MESSAGE)
def properties_are_ascii(request: RemotingCommand) -> RemotingCommand:
    text = request.ext_fields["properties"]
    request.ext_fields["properties"] = text.encode("ascii", "replace").decode()
    return request


@requests("RMQ-SND-04", RequestCode.SEND_MESSAGE)
def flags_are_dropped(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["sysFlag"] = "0"
    return request


@answers("RMQ-SND-05", RequestCode.SEND_BATCH_MESSAGE)
def batches_name_their_last_offset(_: RemotingCommand, answer: Answer) -> Answer:
    if "queueOffset" in answer.ext_fields:
        answer.ext_fields["queueOffset"] = "3"
    return answer


@answers("RMQ-SND-05", RequestCode.SEND_MESSAGE)
def nothing_is_stored_beside_a_batch(request: RemotingCommand, answer: Answer) -> Answer:
    if request.body == b"beside":
        answer.code = ResponseCode.SERVICE_NOT_AVAILABLE
    return answer


@answers("RMQ-SND-05", RequestCode.SEND_BATCH_MESSAGE)
def the_rest_of_a_cut_batch_will_do(request: RemotingCommand, answer: Answer) -> Answer:
    if b"whole" in request.body:
        answer.code = ResponseCode.SUCCESS
    return answer


@system("RMQ-SND-06")
def as_many_queues_as_wanted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(topics, "min", max, raising=False)


@answers("RMQ-SND-07", RequestCode.GET_ROUTEINFO_BY_TOPIC)
def routes_ignore_the_broker(_: RemotingCommand, answer: Answer) -> Answer:
    answer.body = answer.body.replace(b'"perm":4', b'"perm":6')
    return answer


@requests("RMQ-SND-08", RequestCode.SEND_MESSAGE)
def any_queue_will_do(request: RemotingCommand) -> RemotingCommand:
    if request.ext_fields["queueId"] == "2":
        request.ext_fields["queueId"] = "0"
    return request


@system("RMQ-SND-09")
def sends_do_not_wait_for_the_disk(patch: pytest.MonkeyPatch) -> None:
    # A slave answers after its own flush: it would save what the master loses.
    weaker_acknowledgements(patch, sync_flush=False, sync_replication=False)


@system("RMQ-SND-10")
def sends_do_not_wait_for_the_slave(patch: pytest.MonkeyPatch) -> None:
    weaker_acknowledgements(patch, sync_replication=False)


def weaker_acknowledgements(patch: pytest.MonkeyPatch, **weaker: bool) -> None:
    made = PendingSends

    def weakly(**fields: Any) -> PendingSends:
        return made(**{**fields, **weaker})

    patch.setattr(acknowledge, "PendingSends", weakly)


@answers("RMQ-SND-11", RequestCode.SEND_MESSAGE)
def always_ok(_: RemotingCommand, answer: Answer) -> Answer:
    answer.code = ResponseCode.SUCCESS
    return answer


@requests("RMQ-SND-12", RequestCode.SEND_MESSAGE)
def one_way_sends_dropped(request: RemotingCommand) -> RemotingCommand | None:
    return None if request.body == b"7" else request


@answers("RMQ-SND-03", RequestCode.PULL_MESSAGE)
def the_wait_of_a_producer_is_kept(_: RemotingCommand, answer: Answer) -> Answer:
    if answer.body:
        [message] = decode_records(answer.body)
        message.properties["WAIT"] = "true"
        answer.body = bytes(encode_record(message))
    return answer
