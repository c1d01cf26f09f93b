"""Mutants of RMQ-ADM and RMQ-LIM: facts of brokers, and limits that are off by one."""

from __future__ import annotations

import re

import pytest

from staticfire.system_under_test.broker.metadata import topics
from staticfire.system_under_test.broker.sending import batches
from staticfire.system_under_test.broker.sending.internal_copies import InternalCopies
from staticfire.system_under_test.broker.statistics import put_times
from staticfire.system_under_test.broker.statistics.put_times import PutTimes
from staticfire.system_under_test.broker.statistics.statistics import BrokerStatistics
from staticfire.system_under_test.protocol import message
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.store.queues.consume_queue import ConsumeQueue
from tests.conformance.mutants.mutant import Answer, answers, system

INT_MAX = (1 << 31) - 1


@answers("RMQ-ADM-03", RequestCode.UPDATE_BROKER_CONFIG)
def the_highest_number_is_refused(request: RemotingCommand, answer: Answer) -> Answer:
    if request.body.endswith(b"=%d\n" % INT_MAX):
        answer.code = ResponseCode.SYSTEM_ERROR
    return answer


@answers("RMQ-ADM-03", RequestCode.GET_BROKER_RUNTIME_INFO)
def a_lock_is_always_held(_: RemotingCommand, answer: Answer) -> Answer:
    held = b'"pageCacheLockTimeMills":"1"'
    answer.body = answer.body.replace(b'"pageCacheLockTimeMills":"0"', held)
    return answer


@system("RMQ-ADM-12")
def counters_outlive_their_topic(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BrokerStatistics, "forget_topic", lambda *_: None)


@system("RMQ-ADM-12")
def a_deleted_topic_takes_all_counters_along(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BrokerStatistics, "forget_topic", lambda self, _: self._puts.clear())


@system("RMQ-ADM-12")
def what_is_due_is_not_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InternalCopies, "_append", lambda self, copy: self._store.put(copy))


@system("RMQ-ADM-19")
def a_batch_counts_as_one_message(patch: pytest.MonkeyPatch) -> None:
    put = BrokerStatistics.put
    patch.setattr(
        BrokerStatistics,
        "put",
        lambda self, topic, queue, _, size: put(self, topic, queue, 1, size),
    )


@system("RMQ-ADM-19")
def what_is_sent_back_does_not_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BrokerStatistics, "send_back", lambda *_: None)


@system("RMQ-ADM-13")
def topics_of_own_names_are_closed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(topics, "_open_or_bare", lambda _: topics.PERM_INHERIT)


@system("RMQ-ADM-14")
def a_single_entry_has_no_extension(patch: pytest.MonkeyPatch) -> None:
    units = ConsumeQueue.extension_units
    patch.setattr(
        ConsumeQueue,
        "extension_units",
        lambda self, offset, count: units(self, offset, count) if count > 1 else [],
    )


@system("RMQ-LIM-03")
def properties_may_be_one_byte_longer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(message, "PROPERTIES_SIZE_MAX", message.PROPERTIES_SIZE_MAX + 1)


@system("RMQ-LIM-11")
def only_single_messages_have_a_limit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(batches, "PROPERTIES_SIZE_MAX", message.PROPERTIES_SIZE_MAX + 1)
    properties_may_be_one_byte_longer(patch)


@system("RMQ-LIM-11")
def large_batches_are_checked_while_they_are_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(batches, "PROPERTIES_SIZE_MAX", message.PROPERTIES_SIZE_MAX + 1)


@system("RMQ-ADM-18")
def times_are_those_of_the_log_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PutTimes, "took", lambda *_: None)


@system("RMQ-ADM-18")
def steps_are_two_milliseconds_longer(patch: pytest.MonkeyPatch) -> None:
    ends_ms = tuple(end_ms + 2 for end_ms in put_times.BUCKET_ENDS_MS)
    patch.setattr(put_times, "BUCKET_ENDS_MS", ends_ms)


@answers("RMQ-ADM-18", RequestCode.GET_BROKER_RUNTIME_INFO)
def long_times_are_in_another_range(_: RemotingCommand, answer: Answer) -> Answer:
    answer.body = answer.body.replace(b"[5~10s]", b"[5~9s]")
    return answer


@answers("RMQ-ADM-18", RequestCode.GET_BROKER_RUNTIME_INFO)
def the_longest_time_is_the_last_one(_: RemotingCommand, answer: Answer) -> Answer:
    answer.body = re.sub(rb'EntireTimeMax":"\d+', b'EntireTimeMax":"1', answer.body)
    return answer
