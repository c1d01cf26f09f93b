"""Mutants of RMQ-OFF and RMQ-ORD."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from staticfire.system_under_test.broker.clients import queue_locks
from staticfire.system_under_test.broker.clients.queue_locks import QueueLocks
from staticfire.system_under_test.broker.metadata.offsets import (
    ConsumerOffsets,
    OffsetsFile,
    RacingOffsets,
)
from staticfire.system_under_test.protocol.codes import LanguageCode, RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from tests.conformance.mutants.mutant import Answer, answers, requests, system

_NUMBERS = count()


@requests("RMQ-OFF-01", RequestCode.UPDATE_CONSUMER_OFFSET)
def offsets_never_go_back(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["commitOffset"] = str(max(5, int(request.ext_fields["commitOffset"])))
    return request


@requests("RMQ-OFF-11", RequestCode.QUERY_CORRECTION_OFFSET)
def no_group_is_left_out(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields.pop("filterGroups", None)
    return request


@system("RMQ-OFF-12")
def a_commit_forgets_the_other_queues(patch: pytest.MonkeyPatch) -> None:
    def commit(self: RacingOffsets, group: str, topic: str, queue_id: int, offset: int) -> None:
        self._put(f"{topic}@{group}", {queue_id: offset})

    patch.setattr(RacingOffsets, "commit", commit)


@system("RMQ-OFF-02")
def offsets_are_not_read_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OffsetsFile, "load", lambda self: None)


@system("RMQ-OFF-03")
def offsets_are_not_read_again_after_a_kill(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OffsetsFile, "load", lambda self: None)


@answers("RMQ-OFF-04", RequestCode.GET_MAX_OFFSET)
def the_end_is_the_last_message(_: RemotingCommand, answer: Answer) -> Answer:
    answer.ext_fields["offset"] = str(max(0, int(answer.ext_fields["offset"]) - 1))
    return answer


@answers("RMQ-OFF-05", RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
def any_time_is_the_beginning(_: RemotingCommand, answer: Answer) -> Answer:
    answer.ext_fields["offset"] = "0"
    return answer


@answers("RMQ-OFF-06", RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
def no_member_need_be_online(_: RemotingCommand, answer: Answer) -> Answer:
    answer.code = ResponseCode.SUCCESS
    return answer


@requests("RMQ-OFF-07", RequestCode.CLONE_GROUP_OFFSET)
def clones_of_nothing(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["topic"] = "another"
    return request


@system("RMQ-OFF-08")
def one_queue_a_group(patch: pytest.MonkeyPatch) -> None:
    commit = ConsumerOffsets.commit

    def forgetful(self: ConsumerOffsets, group: str, topic: str, queue: int, *rest: Any) -> Any:
        return None if queue % 5 == 4 else commit(self, group, topic, queue, *rest)

    patch.setattr(ConsumerOffsets, "commit", forgetful)


@answers("RMQ-OFF-09", RequestCode.QUERY_CONSUMER_OFFSET)
def offsets_ahead_are_kept(_: RemotingCommand, answer: Answer) -> Answer:
    answer.ext_fields["offset"] = "8"
    return answer


@answers("RMQ-ORD-01", RequestCode.PULL_MESSAGE)
def two_messages_change_places(_: RemotingCommand, answer: Answer) -> Answer:
    size = int.from_bytes(answer.body[:4], "big")
    following = int.from_bytes(answer.body[size : size + 4], "big")
    end = size + following
    answer.body = answer.body[size:end] + answer.body[:size] + answer.body[end:]
    return answer


@answers("RMQ-ORD-02", RequestCode.LOCK_BATCH_MQ)
def every_lock_is_granted(request: RemotingCommand, answer: Answer) -> Answer:
    wanted = json.loads(request.body)["mqSet"]
    answer.body = json.dumps({"lockOKMQSet": wanted}).encode()
    return answer


@system("RMQ-ORD-03")
def locks_last_half_as_long(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(queue_locks, "LOCK_LIVE_MAX_NS", 30_000_000_000)


@system("RMQ-ORD-03")
def locks_last_twice_as_long(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(queue_locks, "LOCK_LIVE_MAX_NS", 120_000_000_000)


@system("RMQ-ORD-04")
def any_client_may_unlock(patch: pytest.MonkeyPatch) -> None:
    unlock = QueueLocks.unlock

    def of_any_client(self: QueueLocks, group: str, queues: Any, _client: str) -> None:
        for client in ("one", "two"):
            unlock(self, group, queues, client)

    patch.setattr(QueueLocks, "unlock", of_any_client)


@requests("RMQ-ORD-05", RequestCode.LOCK_BATCH_MQ)
def owners_are_connections(request: RemotingCommand) -> RemotingCommand:
    body = json.loads(request.body)
    body["clientId"] += str(next(_NUMBERS))
    request.body = json.dumps(body).encode()
    return request


@requests("RMQ-OFF-07", RequestCode.CLONE_GROUP_OFFSET)
def all_topics_are_cloned(request: RemotingCommand) -> RemotingCommand:
    del request.ext_fields["topic"]
    return request


@requests("RMQ-OFF-06", RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
def consumers_are_notified_as_c_clients_are(request: RemotingCommand) -> RemotingCommand:
    request.language = LanguageCode.CPP
    return request


@requests("RMQ-OFF-06", RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
def force_is_not_heard_of(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields.pop("isForce", None)
    return request


@requests("RMQ-OFF-06", RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
def always_by_force(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["isForce"] = "true"
    return request
