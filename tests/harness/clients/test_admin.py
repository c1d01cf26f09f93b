"""Refusals and malformed answers to the administrator."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from staticfire.harness.clients import admin
from staticfire.harness.clients.admin import carry_out
from staticfire.harness.clients.port import Outcome, Request
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.bodies_queues import (
    ConsumeStats,
    OffsetPosition,
    ResetOffsetBody,
)
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import Message, encode_record
from staticfire.system_under_test.remoting import RemotingClient

STATE: Request = {"f": "queue_state", "topic": "T", "group": "g", "queues": 1, "address": "a:1"}
TOPICS: Request = {"f": "topics_known", "address": "a:1"}


class Answering:
    """A remoting client whose peer gives the same answer to everything."""

    def __init__(self, code: int, ext: dict[str, str], body: bytes) -> None:
        self._answer = (code, None, ext, body)

    async def invoke(self, address: str, command: RemotingCommand, *_: Any, **__: Any) -> Any:
        return RemotingCommand.response(command, *self._answer)


def outcome(request: Request, ext: dict[str, str], *, code: int = 0, body: bytes = b"") -> Outcome:
    replies: list[Outcome] = []
    remoting = cast(RemotingClient, Answering(code, ext, body))
    asyncio.run(carry_out(remoting, request, replies.append))
    [reply] = replies
    return reply


def test_a_queue_has_a_minimum_a_maximum_and_what_is_committed() -> None:
    assert outcome(STATE, {"offset": "7"}) == Outcome("ok", {"queues": [[0, 7, 7, 7]]})


def test_a_refusal_is_reported_with_its_code() -> None:
    code = ResponseCode.SERVICE_NOT_AVAILABLE
    assert outcome(STATE, {}, code=code) == Outcome(
        "info", {}, f"a:1 answered GET_MIN_OFFSET with {code:d}: None"
    )


@pytest.mark.parametrize(
    ("request_", "body", "ext"),
    [
        (STATE, b"", {}),
        (STATE, b"", {"offset": "seven"}),
        (TOPICS, b"no JSON", {}),
        (TOPICS, b"{}", {}),
        (TOPICS, b'{"topicList": 5}', {}),
    ],
)
def test_nonsense_is_answered(request_: Request, body: bytes, ext: dict[str, str]) -> None:
    answer = outcome(request_, ext, body=body)
    assert answer.type == "info"
    assert "the answer makes no sense" in str(answer.error)


class Mending(Answering):
    """A broker that has nothing to give for a while, although its queue holds one message."""

    def __init__(self, pulls: int) -> None:
        self._pulls = pulls
        record = bytes(encode_record(Message("T", b"k v", {"KEYS": "k"})))
        self._found = (ResponseCode.SUCCESS, None, {"maxOffset": "1"}, record)
        self._answer = (ResponseCode.PULL_RETRY_IMMEDIATELY, None, {"maxOffset": "1"}, b"")

    async def invoke(self, address: str, command: RemotingCommand, *_: Any, **__: Any) -> Any:
        self._pulls -= 1
        return RemotingCommand.response(command, *(self._answer if self._pulls else self._found))


@pytest.mark.parametrize(("pulls", "messages"), [(1, 1), (5, 1), (admin.MENDING_TRIES + 2, 0)])
def test_a_queue_is_read_once_its_record_is_mended(
    pulls: int, messages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "MENDING_PAUSE_S", 0.0)
    replies: list[Outcome] = []
    request = {"f": "read_queue", "topic": "T", "queue": 0, "limit": 1, "address": "a:1"}
    asyncio.run(carry_out(cast(RemotingClient, Mending(pulls)), request, replies.append))

    [reply] = replies
    assert (reply.type, len(reply.value["messages"])) == ("ok", messages)
    assert ("incomplete" in reply.value) == (not messages)


class PassingOver(Answering):
    """A broker whose queue of two messages has lost the first one on all replicas, and which waits for no repair."""

    def __init__(self) -> None:
        pass

    async def invoke(self, address: str, command: RemotingCommand, *_: Any, **__: Any) -> Any:
        offset = int(command.ext_fields["queueOffset"] or 0)
        message = replace(Message("T", b"k v", {"KEYS": "k"}), queue_offset=1)
        answers: dict[int, tuple[int, bytes]] = {
            0: (ResponseCode.PULL_RETRY_IMMEDIATELY, b""),
            1: (ResponseCode.SUCCESS, bytes(encode_record(message))),
        }
        code, body = answers.get(offset, (ResponseCode.PULL_NOT_FOUND, b""))
        ext = {"maxOffset": "2", "nextBeginOffset": str(offset + 1)}
        return RemotingCommand.response(command, code, None, ext, body)


def test_what_a_broker_passes_over_is_passed_over() -> None:
    """It answered so again and again, and the rest of the queue counted as unread."""
    replies: list[Outcome] = []
    request = {"f": "read_queue", "topic": "T", "queue": 0, "address": "a:1"}
    asyncio.run(carry_out(cast(RemotingClient, PassingOver()), request, replies.append))
    [answer] = replies
    assert [message[:2] for message in answer.value["messages"]] == [["k", 1]]
    assert "incomplete" not in answer.value


def test_a_broker_that_passes_over_for_ever_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    class PassingOn(Answering):
        async def invoke(self, address: str, command: RemotingCommand, *_: Any, **__: Any) -> Any:
            offset = int(command.ext_fields["queueOffset"] or 0)
            ext = {"maxOffset": str(2**62), "nextBeginOffset": str(offset + 1)}
            code = ResponseCode.PULL_RETRY_IMMEDIATELY
            return RemotingCommand.response(command, code, None, ext, b"")

    monkeypatch.setattr(admin, "PASSED_MAX", 3)
    monkeypatch.setattr(admin, "MENDING_PAUSE_S", 0.0)
    replies: list[Outcome] = []
    request = {"f": "read_queue", "topic": "T", "queue": 0, "address": "a:1"}
    broker = cast(RemotingClient, PassingOn(0, {}, b""))
    asyncio.run(carry_out(broker, request, replies.append))
    assert "nothing came from offset 3 on" in replies[0].value["incomplete"]


@pytest.mark.parametrize("answers", [1, 2, 5])
def test_a_record_whose_position_no_client_said_is_looked_up_once_it_is_mended(
    answers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found neither by its key nor by an id, it is met first by a pull, which has it mended."""
    monkeypatch.setattr(admin, "MENDING_PAUSE_S", 0.0)
    replies: list[Outcome] = []
    wanted = {"topic": "T", "address": "a:1", "indexed": False, "messages": [["k", 0, 0, -1]]}
    broker = cast(RemotingClient, Mending(1 + answers))  # the first one is that of the query by key
    asyncio.run(carry_out(broker, {"f": "look_up", **wanted}, replies.append))

    assert replies[0].value["messages"] == [["k", 0, 0, False, None, True]]


def test_what_a_broker_does_not_give_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "MENDING_PAUSE_S", 0.0)
    replies: list[Outcome] = []
    request = {"f": "read_queue", "topic": "T", "queue": 0, "address": "a:1"}
    asyncio.run(carry_out(cast(RemotingClient, Mending(99)), request, replies.append))

    assert replies[0].value["incomplete"] == (
        "nothing came from offset 0 on in 0 s, and the queue ends at 1: code 20, without a word"
    )


def test_a_record_that_is_none_is_named() -> None:
    """What a broker that serves a damaged log answers: the others are looked for all the same."""
    wanted = {"topic": "T", "address": "a:1", "messages": [["k", 0, 7, 100]]}
    answer = outcome(
        {"f": "look_up", **wanted}, {"offset": "0"}, body=b"\0\0\0\x0c\xda\xa3\x20\xa7\0\0\0\0"
    )

    assert (answer.type, answer.value["messages"]) == ("ok", [])
    [[key, queue, offset, error]] = answer.value["torn"]
    assert (key, queue, offset) == ("k", 0, 7)
    assert "record at 0" in error


class Damaged(Answering):
    """A broker with one damaged record, which a pull has mended; `mends`: whether a query finds it then."""

    def __init__(self, mends: bool) -> None:
        self._mends = mends
        self._is_damaged = True
        message = Message("T", b"k v", {"KEYS": "k"}, physical_offset=100)
        self._record = bytes(encode_record(message))

    async def invoke(self, address: str, command: RemotingCommand, *_: Any, **__: Any) -> Any:
        if command.code == RequestCode.PULL_MESSAGE:
            self._is_damaged = not self._mends
        elif self._is_damaged:
            return RemotingCommand.response(command, ResponseCode.QUERY_NOT_FOUND, None, {}, b"")
        return RemotingCommand.response(command, ResponseCode.SUCCESS, None, {}, self._record)


@pytest.mark.parametrize(
    ("indexed", "mends", "by_key"),
    [(True, True, True), (True, False, False), (False, True, False)],
)
def test_a_record_that_was_mended_is_looked_for_by_key_again(
    indexed: bool, mends: bool, by_key: bool
) -> None:
    replies: list[Outcome] = []
    wanted = {"topic": "T", "address": "a:1", "indexed": indexed, "messages": [["k", 0, 7, 100]]}
    broker = cast(RemotingClient, Damaged(mends))
    asyncio.run(carry_out(broker, {"f": "look_up", **wanted}, replies.append))

    assert replies[0].value["messages"] == [["k", 0, 7, by_key, False, True]]


class Deleting(Answering):
    """A broker that has deleted a message, and raises the first offset of its queue some answers later."""

    def __init__(self, late: int) -> None:
        self._late = late

    async def invoke(self, address: str, command: RemotingCommand, *_: Any, **__: Any) -> Any:
        if command.code != RequestCode.GET_MIN_OFFSET:
            return RemotingCommand.response(command, ResponseCode.QUERY_NOT_FOUND, None, {}, b"")
        self._late -= 1
        first = "7" if self._late >= 0 else "9"
        return RemotingCommand.response(command, ResponseCode.SUCCESS, None, {"offset": first}, b"")


@pytest.mark.parametrize(("late", "first"), [(0, 9), (1, 9), (3, 9), (99, 7)])
def test_a_queue_that_lacks_what_it_claims_to_have_is_asked_again(
    late: int, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "FIRST_OFFSET_PAUSE_S", 0.0)
    replies: list[Outcome] = []
    wanted = {"topic": "T", "address": "a:1", "messages": [["j", 0, 5, 50], ["k", 0, 8, 80]]}
    broker = cast(RemotingClient, Deleting(late))
    asyncio.run(carry_out(broker, {"f": "look_up", **wanted}, replies.append))

    assert replies[0].value["first_offsets"] == [[0, first]]


@pytest.mark.parametrize(
    ("code", "type"), [(ResponseCode.SYSTEM_ERROR, "ok"), (ResponseCode.NO_PERMISSION, "info")]
)
def test_a_failed_search_is_distinguished_from_a_forbidden_one(
    code: ResponseCode, type: str
) -> None:
    search = {"f": "search_times", "topic": "T", "address": "a:1", "places": [["k", 0, 7]]}
    answer = outcome(search, {}, code=code)
    said = f"a:1 does not say what lies at 7: code {code:d}, without a word"
    if type == "ok":
        assert answer == Outcome("ok", {"searched": [], "refused": [["k", 0, 7, said]]})
    else:
        assert answer == Outcome("info", {}, said)


class Timed(Answering):
    """A broker with messages of these store times in queue 0, which answers a reset with these offsets."""

    def __init__(self, times_ms: list[int], answered: dict[int, int]) -> None:
        self._times_ms = times_ms
        self._answered = {MessageQueue("T", "b", queue): at for queue, at in answered.items()}
        self.resets: list[tuple[str, str]] = []

    async def invoke(self, address: str, command: RemotingCommand, *_: Any, **__: Any) -> Any:
        ext, body = command.ext_fields, b""
        match command.code:
            case RequestCode.GET_MIN_OFFSET:
                ext = {"offset": "0"}
            case RequestCode.GET_MAX_OFFSET:
                ext = {"offset": str(len(self._times_ms))}
            case RequestCode.PULL_MESSAGE:
                offset = int(ext["queueOffset"])
                if offset >= len(self._times_ms):
                    return RemotingCommand.response(command, ResponseCode.PULL_NOT_FOUND, None, {})
                stored_ms = self._times_ms[offset]
                message = Message("T", b"", {}, queue_offset=offset, store_timestamp_ms=stored_ms)
                body = bytes(encode_record(message))
            case RequestCode.GET_CONSUME_STATS:
                if not self._times_ms:
                    return RemotingCommand.response(command, ResponseCode.SYSTEM_BUSY)
                position = OffsetPosition(broker_offset=90, consumer_offset=40)
                body = ConsumeStats(offset_table=dict.fromkeys(self._answered, position)).encode()
            case RequestCode.INVOKE_BROKER_TO_RESET_OFFSET:
                self.resets.append((ext["timestamp"], ext["isForce"]))
                body = ResetOffsetBody(offset_table=self._answered).encode()
        return RemotingCommand.response(command, ResponseCode.SUCCESS, None, ext, body)


@pytest.mark.parametrize(
    ("share", "times_ms", "answered", "asked", "offsets"),
    [
        (0.0, [5, 6, 7, 8, 9], {0: 0, 1: 0}, ("0", "true"), []),
        (0.5, [5, 6, 7, 8, 9], {0: 2, 1: 30}, ("7", "false"), [[0, 2], [1, 30]]),
        (0.5, [5, 6, 7, 8, 9], {0: 1, 1: 30}, ("7", "false"), [[0, 1], [1, 30]]),
        (0.5, [5, 6, 7, 8, 9], {0: 3, 1: 30}, ("7", "false"), [[0, 2], [1, 30]]),  # too high
        (0.5, [5, 6, 7, 7, 9], {0: 3}, ("7", "false"), [[0, 3]]),  # any of one time
        (1.0, [5, 6, 7, 8, 9], {1: 30}, ("9", "false"), [[0, 4], [1, 30]]),
        (0.5, [], {0: 0}, ("0", "true"), []),
        (0.0001, [7] * (1 + admin.SAME_TIME_MAX), {0: 0}, ("7", "false"), [[0, 0]]),
        (0.0001, [7] * (2 + admin.SAME_TIME_MAX), {0: 0}, ("0", "true"), []),  # too many
    ],
)
def test_a_group_goes_back_to_the_time_of_a_message(
    share: float,
    times_ms: list[int],
    answered: dict[int, int],
    asked: tuple[str, str],
    offsets: list[list[int]],
) -> None:
    replies: list[Outcome] = []
    broker = Timed(times_ms, answered)
    request = {"f": "reset_offsets", "topic": "T", "group": "g", "address": "a:1", "share": share}
    asyncio.run(carry_out(cast(RemotingClient, broker), request, replies.append))

    rows = [[queue, at] for queue, at in answered.items()]
    # An empty broker does not say what the group has committed.
    committed = [[queue, 40] for queue in answered] if times_ms else []
    evidence = {"time_ms": int(asked[0]), "answers": rows, "committed": committed}
    assert replies == [Outcome("ok", {"offsets": offsets, **evidence})]
    assert broker.resets == [asked]
