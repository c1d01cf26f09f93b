"""Mutants of retention, of what is made again, and of logs that should be equal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from staticfire.harness.conformance.bench import Bench
from staticfire.system_under_test.broker.append_pipeline.retention import Cleaning
from staticfire.system_under_test.broker.metadata.consumer_filters import FiltersFile
from staticfire.system_under_test.broker.metadata.offsets import ConsumerOffsets
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.store.index.index_recovery import IndexRecovery
from tests.conformance.mutants.mutant import Answer, answers, system
from tests.conformance.mutants.store import alter_files


@system("RMQ-HA-02")
def slaves_change_a_byte(patch: pytest.MonkeyPatch) -> None:
    read = Bench.read_store

    async def altered(self: Bench, address: str) -> Mapping[str, bytes]:
        found = dict(await read(self, address))
        master = (await self.master()).address
        for path, data in found.items():
            if address != master and "/commitlog/" in path:
                found[path] = data[:100] + bytes([data[100] ^ 1]) + data[101:]
        return found

    patch.setattr(Bench, "read_store", altered)


@answers("RMQ-HA-05", RequestCode.SEND_MESSAGE)
def slaves_far_behind_are_waited_for(_: RemotingCommand, answer: Answer) -> Answer:
    if answer.code == ResponseCode.SLAVE_NOT_AVAILABLE:
        answer.code = ResponseCode.FLUSH_SLAVE_TIMEOUT
    return answer


@answers("RMQ-RCV-04", RequestCode.PULL_MESSAGE)
def one_queue_is_lost_as_a_whole(request: RemotingCommand, answer: Answer) -> Answer:
    if request.ext_fields["queueId"] == "0" and answer.body:
        answer.code, answer.body = ResponseCode.PULL_NOT_FOUND, b""
    return answer


@system("RMQ-RCV-09")
def the_index_is_not_made_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(IndexRecovery, "add", lambda *_: None)


@answers("RMQ-RCV-10", RequestCode.PULL_MESSAGE)
def records_of_java_are_passed_over(_: RemotingCommand, answer: Answer) -> Answer:
    size = int.from_bytes(answer.body[:4], "big")
    answer.body = answer.body[size:]
    return answer


@system("RMQ-RCV-11")
def files_have_to_be_whole(patch: pytest.MonkeyPatch) -> None:
    from staticfire.system_under_test.store.mapped_file import MappedFileQueue

    load = MappedFileQueue.load

    def strict(self: MappedFileQueue, **_: Any) -> None:
        load(self, clean=True, whole=True)

    patch.setattr(MappedFileQueue, "load", strict)


@system("RMQ-STO-05")
def nothing_stands_before_a_queue(patch: pytest.MonkeyPatch) -> None:
    blank = (0).to_bytes(8, "big") + (2**31 - 1).to_bytes(4, "big") + bytes(8)
    alter_files(patch, lambda path, data: (path, data.replace(blank, bytes(20))))


@system("RMQ-STO-09")
def nothing_is_removed(patch: pytest.MonkeyPatch) -> None:
    async def rest(_: Cleaning) -> None:
        return None

    patch.setattr(Cleaning, "run", rest)
    patch.setattr("staticfire.harness.conformance.cases.durability.store_life.DELETE_S", 20.0)


@answers("RMQ-STO-09", RequestCode.GET_MIN_OFFSET)
def the_least_offset_leads_nowhere(_: RemotingCommand, answer: Answer) -> Answer:
    if int(answer.ext_fields["offset"]):
        answer.ext_fields["offset"] = "2"
    return answer


@answers("RMQ-STO-09", RequestCode.QUERY_CONSUMER_OFFSET)
def new_groups_begin_at_what_is_gone(_: RemotingCommand, answer: Answer) -> Answer:
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        answer.code, answer.ext_fields["offset"] = ResponseCode.SUCCESS, "0"
    return answer


@system("RMQ-STO-10")
def offsets_are_written_at_once(patch: pytest.MonkeyPatch) -> None:
    init = ConsumerOffsets.__init__

    def changed(self: ConsumerOffsets) -> None:
        init(self)
        self.changed = True

    patch.setattr(ConsumerOffsets, "__init__", changed)


@system("RMQ-STO-10")
def filters_are_written_again(patch: pytest.MonkeyPatch) -> None:
    save = FiltersFile.save

    async def again(self: FiltersFile) -> None:
        await save(self)
        self._filters.changed = bool(self._filters.snapshot()["filterDataByTopic"])

    patch.setattr(FiltersFile, "save", again)
