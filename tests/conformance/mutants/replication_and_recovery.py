"""Mutants of RMQ-HA and RMQ-RCV."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.harness.conformance.raw_stream import HaStream
from staticfire.harness.simulation.network.tls import SimTls
from staticfire.system_under_test.broker.metadata.subscription_groups import SubscriptionGroups
from staticfire.system_under_test.broker.metadata.topics import Topics
from staticfire.system_under_test.broker.replication import catch_up
from staticfire.system_under_test.broker.replication.catch_up import CatchUpMark
from staticfire.system_under_test.broker.replication.ha import HaService
from staticfire.system_under_test.broker.replication.ha_connections import HaSenderConnection
from staticfire.system_under_test.broker.replication.record_repair import RecordRepair
from staticfire.system_under_test.broker.replication.slave_sync import SlaveSync
from staticfire.system_under_test.broker.sending.pending_sends import PendingSends
from staticfire.system_under_test.configuration.option_values import one_of
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.recovery.recovery import Recovery
from staticfire.system_under_test.store.replication.replica_receiver import ReplicaReceiver
from staticfire.system_under_test.store.replication.replication import ReplicaSender
from tests.conformance.mutants.mutant import Answer, answers, requests, system
from tests.conformance.mutants.send import weaker_acknowledgements


@system("RMQ-HA-01")
def positions_are_off_by_eight(patch: pytest.MonkeyPatch) -> None:
    received = HaStream.data_received

    def shifted(self: HaStream, data: bytes) -> None:
        position = int.from_bytes(data[:8], "big") + 8
        received(self, position.to_bytes(8, "big") + data[8:])

    patch.setattr(HaStream, "data_received", shifted)


@system("RMQ-HA-03")
def masters_are_silent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HaSenderConnection, "tick", lambda self, *args: None)


@answers("RMQ-HA-04", RequestCode.SEND_MESSAGE)
def slaves_do_not_matter(_: RemotingCommand, answer: Answer) -> Answer:
    answer.code = ResponseCode.SUCCESS
    return answer


@requests("RMQ-HA-11", RequestCode.UPDATE_BROKER_CONFIG)
def sends_wait_for_slaves_as_long_as_ever(request: RemotingCommand) -> RemotingCommand:
    request.body = b"slaveTimeout=3000\n"
    return request


@system("RMQ-RCV-14")
def the_log_ends_at_damage(patch: pytest.MonkeyPatch) -> None:
    """And the master does not ask its slaves for the rest."""
    make = Recovery.__init__

    def forgetful(self: Recovery, **parts: Any) -> None:
        make(self, **{**parts, "keeps_damaged": False})

    patch.setattr(Recovery, "__init__", forgetful)
    patch.setattr(catch_up, "may_lack_acknowledged", lambda *_, **__: False)


@system("RMQ-HA-12")
def slaves_keep_what_differs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReplicaReceiver, "_cut_tail", lambda self, difference: None)


@system("RMQ-HA-13")
def masters_forget_that_they_fetch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CatchUpMark, "load", lambda self: None)


@system("RMQ-HA-13")
def masters_know_the_topics_of_their_slave_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Topics, "cover", lambda _self, _queues: None)


@answers("RMQ-HA-06", RequestCode.PULL_MESSAGE)
def slaves_correct_offsets(request: RemotingCommand, answer: Answer) -> Answer:
    if request.ext_fields["queueOffset"] == "9":
        answer.code, answer.ext_fields["nextBeginOffset"] = ResponseCode.PULL_OFFSET_MOVED, "5"
    return answer


@answers("RMQ-HA-07", RequestCode.QUERY_CONSUMER_OFFSET)
def slaves_know_no_offsets(_: RemotingCommand, answer: Answer) -> Answer:
    answer.code = ResponseCode.QUERY_NOT_FOUND
    return answer


@answers("RMQ-HA-08", RequestCode.SEND_MESSAGE)
def reports_are_believed(_: RemotingCommand, answer: Answer) -> Answer:
    answer.code = ResponseCode.SUCCESS
    return answer


@requests("RMQ-HA-09", RequestCode.SEND_MESSAGE)
def what_was_missed_is_repeated(request: RemotingCommand) -> RemotingCommand:
    if request.body == b"6":
        request.body = b"5"
    return request


@answers("RMQ-HA-10", RequestCode.PULL_MESSAGE)
def empty_slaves_begin_with_the_second_message(_: RemotingCommand, answer: Answer) -> Answer:
    size = int.from_bytes(answer.body[:4], "big")
    answer.body = answer.body[size:]
    return answer


@requests("RMQ-RCV-01", RequestCode.GET_MAX_OFFSET)
def queues_change_places(request: RemotingCommand) -> RemotingCommand:
    request.ext_fields["queueId"] = "3"
    return request


@answers("RMQ-RCV-02", RequestCode.PULL_MESSAGE)
def the_tail_is_cut_at_a_start(request: RemotingCommand, answer: Answer) -> Answer:
    if int(request.ext_fields["queueOffset"]) > 0:
        answer.code, answer.body = ResponseCode.PULL_NOT_FOUND, b""
    return answer


@system("RMQ-RCV-03")
def acknowledged_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    weaker_acknowledgements(patch, sync_flush=False, sync_replication=False)


@system("RMQ-RCV-05")
def acknowledged_large_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    weaker_acknowledgements(patch, sync_flush=False, sync_replication=False)


@system("RMQ-RCV-06")
def acknowledged_in_any_order(patch: pytest.MonkeyPatch) -> None:
    weaker_acknowledgements(patch, sync_flush=False, sync_replication=False)


@system("RMQ-RCV-07")
def acknowledged_before_power_fails_again(patch: pytest.MonkeyPatch) -> None:
    weaker_acknowledgements(patch, sync_flush=False, sync_replication=False)


@answers("RMQ-RCV-08", RequestCode.GET_MAX_OFFSET)
def queues_are_longer_than_the_log(_: RemotingCommand, answer: Answer) -> Answer:
    answer.ext_fields["offset"] = str(int(answer.ext_fields["offset"]) + 1)
    return answer


@answers("RMQ-RCV-12", RequestCode.SEND_MESSAGE)
def errors_of_flushes_are_swallowed(_: RemotingCommand, answer: Answer) -> Answer:
    answer.code = ResponseCode.SUCCESS
    return answer


@system("RMQ-HA-07")
def slaves_keep_their_topics(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Topics, "adopt", lambda _self, _table: False)


@answers("RMQ-HA-06", RequestCode.QUERY_CONSUMER_OFFSET)
def slaves_forget_offsets(_: RemotingCommand, answer: RemotingCommand) -> RemotingCommand:
    answer.ext_fields["offset"] = "0"
    return answer


@answers("RMQ-HA-14", RequestCode.SEND_MESSAGE)
def lost_slaves_are_waited_for(
    request: RemotingCommand, answer: RemotingCommand
) -> RemotingCommand:
    if request.body == b"waits":
        answer.code = ResponseCode.FLUSH_SLAVE_TIMEOUT
    return answer


@system("RMQ-HA-15")
def slaves_get_what_is_flushed(patch: pytest.MonkeyPatch) -> None:
    make = ReplicaSender.__init__

    def late(self: ReplicaSender, *arguments: Any, **options: Any) -> None:
        make(self, *arguments, **{**options, "flushed_only": True})

    patch.setattr(ReplicaSender, "__init__", late)


@system("RMQ-HA-02")
def roles_have_the_names_of_others(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        one_of,
        "format",
        lambda self, value: next(name for name, choice in self._choices.items() if choice != value),
    )


@system("RMQ-RCV-15")
def lost_records_are_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MessageStore, "give_up", lambda _self, _position: None)


@system("RMQ-RCV-15")
def waiting_pulls_do_not_learn_of_repairs(patch: pytest.MonkeyPatch) -> None:
    nothing = property(lambda _: lambda *_: None, lambda _self, _call: None)
    patch.setattr(RecordRepair, "on_settled", nothing, raising=False)


@answers("RMQ-RCV-15", RequestCode.PULL_MESSAGE)
def the_damaged_message_is_served(request: RemotingCommand, answer: Answer) -> Answer:
    if request.ext_fields["queueOffset"] == "1" and answer.body:
        size = int.from_bytes(answer.body[:4], "big")
        answer.body = answer.body[:size] + answer.body
    return answer


@system("RMQ-HA-13")
def peers_that_ask_end_the_catch_up(patch: pytest.MonkeyPatch) -> None:
    def end(self: HaService, _connection: HaSenderConnection) -> None:
        self._follower.end_link()

    patch.setattr(HaService, "_may_be_new_master", end)


@system("RMQ-HA-16")
def masters_replicate_in_plain_text(patch: pytest.MonkeyPatch) -> None:
    for side in ("replica_server_context", "replica_client_context"):
        patch.setattr(SimTls, side, lambda _: None)


@system("RMQ-HA-17")
def masters_look_again_and_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        PendingSends, "next_deadline_ns", lambda self, now_ns: now_ns if len(self) else None
    )


@system("RMQ-RCV-16")
def groups_are_kept_in_memory_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        SubscriptionGroups, "_replace", lambda self, groups: setattr(self, "_groups", groups)
    )


@system("RMQ-HA-18")
def a_slave_does_not_copy_delay_offsets(patch: pytest.MonkeyPatch) -> None:
    async def nothing(_self: SlaveSync, _master: str) -> None:
        """The file stays as it is."""

    patch.setattr(SlaveSync, "_copy_delay_offsets", nothing)
