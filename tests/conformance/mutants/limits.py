"""Mutants of RMQ-LIM."""

from __future__ import annotations

import pytest

from system_under_test.broker import send, topics
from system_under_test.protocol.codes import RequestCode, ResponseCode
from system_under_test.protocol.command import RemotingCommand
from system_under_test.remoting.connection import Connection
from tests.conformance.mutants.mutant import answers, requests, system

Answer = RemotingCommand


@answers("RMQ-LIM-01", RequestCode.SEND_MESSAGE)
def too_large_is_an_error_of_the_system(_: RemotingCommand, answer: Answer) -> Answer:
    if answer.code == ResponseCode.MESSAGE_ILLEGAL:
        answer.code = ResponseCode.SYSTEM_ERROR
    return answer


@system("RMQ-LIM-02")
def long_names_of_topics(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(topics, "TOPIC_LENGTH_MAX", 255)


@answers("RMQ-LIM-03", RequestCode.PULL_MESSAGE)
def large_properties_are_cut(_: RemotingCommand, answer: Answer) -> Answer:
    answer.body = answer.body.replace(b"v" * 32_000, b"v" * 31_999 + b"w")
    return answer


@system("RMQ-LIM-04")
def own_topics_take_sends(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(send, "FORBIDDEN_TOPICS", frozenset({"SCHEDULE_TOPIC_XXXX"}))


@requests("RMQ-LIM-06", RequestCode.SEND_MESSAGE)
def empty_bodies_are_filled(request: RemotingCommand) -> RemotingCommand:
    request.body = request.body or b"nothing"
    return request


@answers("RMQ-LIM-07", RequestCode.SEND_MESSAGE)
def never_busy(_: RemotingCommand, answer: Answer) -> Answer:
    if answer.code == ResponseCode.SYSTEM_BUSY:
        answer.code = ResponseCode.SYSTEM_ERROR
    return answer


@system("RMQ-LIM-08")
def noise_ends_service(patch: pytest.MonkeyPatch) -> None:
    """After a connection that broke the protocol nobody else is read."""
    received, abort = Connection.data_received, Connection.abort
    broken: list[Connection] = []

    def breaking(self: Connection) -> None:
        broken.append(self)
        abort(self)

    def deaf(self: Connection, data: bytes) -> None:
        if not broken:
            received(self, data)

    patch.setattr(Connection, "abort", breaking)
    patch.setattr(Connection, "data_received", deaf)


@answers("RMQ-LIM-09")
def refusals_are_not_sent(_: RemotingCommand, answer: Answer) -> Answer | None:
    return None if answer.code == ResponseCode.SYSTEM_ERROR else answer


@system("RMQ-LIM-10")
def one_slow_reader_stops_all(patch: pytest.MonkeyPatch) -> None:
    received, pause = Connection.data_received, Connection.pause_writing
    paused: list[Connection] = []

    def noting(self: Connection) -> None:
        paused.append(self)
        pause(self)

    def waiting(self: Connection, data: bytes) -> None:
        if not paused:
            received(self, data)

    patch.setattr(Connection, "pause_writing", noting)
    patch.setattr(Connection, "data_received", waiting)
