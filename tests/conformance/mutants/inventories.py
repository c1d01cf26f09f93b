"""Mutants of RMQ-ADM-20, 21 and RMQ-NS-14, 15: lists that lack or have something."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from staticfire.system_under_test.broker.clients.clients import Clients
from staticfire.system_under_test.name_server.requests import RequestTable
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from tests.conformance.mutants.mutant import Answer, answers, system


def changed(answer: Answer, change: Callable[[dict[str, Any]], object]) -> Answer:
    """Change the JSON object of an answer."""
    if answer.body:
        document = json.loads(answer.body)
        change(document)
        answer.body = json.dumps(document).encode()
    return answer


@answers("RMQ-ADM-20", RequestCode.GET_CONSUMER_CONNECTION_LIST)
def the_last_member_is_left_out(_: RemotingCommand, answer: Answer) -> Answer:
    return changed(answer, lambda document: document["connectionSet"].pop())


@answers("RMQ-ADM-20", RequestCode.GET_PRODUCER_CONNECTION_LIST)
def every_producer_is_at_one_address(_: RemotingCommand, answer: Answer) -> Answer:
    def move(document: dict[str, Any]) -> None:
        for one in document["connectionSet"]:
            one["clientAddr"] = "127.0.0.1:1"

    return changed(answer, move)


@system("RMQ-ADM-20")
def who_is_gone_stays_listed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Clients, "connection_closed", lambda *_: None)


@answers("RMQ-ADM-21", RequestCode.QUERY_TOPIC_CONSUME_BY_WHO)
def only_one_group_is_listed(_: RemotingCommand, answer: Answer) -> Answer:
    return changed(answer, lambda document: document.update(groupList=document["groupList"][:1]))


@answers("RMQ-NS-14", RequestCode.GET_TOPICS_BY_CLUSTER)
def a_cluster_has_no_topics(_: RemotingCommand, answer: Answer) -> Answer:
    return changed(answer, lambda document: document.update(topicList=[]))


@answers("RMQ-NS-14", RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
def only_clusters_are_system_topics(_: RemotingCommand, answer: Answer) -> Answer:
    def leave_out(document: dict[str, Any]) -> None:
        names = document["topicList"]
        document["topicList"] = [one for one in names if not one.startswith("broker-")]

    return changed(answer, leave_out)


@answers("RMQ-NS-15", RequestCode.UPDATE_NAMESRV_CONFIG)
def every_option_may_be_changed(_: RemotingCommand, answer: Answer) -> Answer:
    answer.code = ResponseCode.SUCCESS
    return answer


@system("RMQ-NS-15")
def a_change_has_no_effect(patch: pytest.MonkeyPatch) -> None:
    update = RequestTable._update_config

    def checked_only(self: RequestTable, *rest: Any) -> Any:
        if b"orderMessageEnable" in rest[-1].body:
            return RemotingCommand.response(rest[-1], ResponseCode.SUCCESS)
        return update(self, *rest)

    patch.setattr(RequestTable, "_update_config", checked_only)
