"""The contract against the real thing: recorded traffic of a real broker keeps the clauses that it touches.

A clause here is a predicate over one exchange (a request and its answer). Each must be touched by some recording, so
that none agrees with nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from staticfire.harness.conformance.clause import contract
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from tests.support.capture_replay import CAPTURES, Frame, read_capture

ONE_WAY = 2
MAY_WAIT = 2
SCAN_S = 6.0


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request of a client and what the real server answered; None if nothing came before the recording ended."""

    request: Frame
    answer: Frame | None

    @property
    def code(self) -> int:
        return int(self.request.head["code"])

    @property
    def is_one_way(self) -> bool:
        return bool(self.request.head["flag"] & ONE_WAY)


@cache
def exchanges() -> tuple[Exchange, ...]:
    names = sorted(path.stem for path in Path(CAPTURES).glob("*.jsonl"))
    return tuple(exchange for name in names for exchange in _of_capture(name))


def _of_capture(name: str) -> Iterator[Exchange]:
    frames = read_capture(name)
    answers = {
        (frame.conversation, frame.head["opaque"]): frame
        for frame in frames
        if frame.is_response and not frame.from_client
    }
    for frame in frames:
        if frame.from_client and not frame.is_response:
            answer = answers.get((frame.conversation, frame.head["opaque"]))
            yield Exchange(frame, answer)


@cache
def pushes() -> tuple[Frame, ...]:
    """Requests of the real broker to its clients."""
    names = sorted(path.stem for path in Path(CAPTURES).glob("*.jsonl"))
    return tuple(
        frame
        for name in names
        for frame in read_capture(name)
        if not frame.from_client and not frame.is_response
    )


Agrees = Callable[[Exchange], bool | None]  # None: the exchange does not touch the clause
CLAUSES: dict[str, Agrees] = {}


def clause(clause_id: str) -> Callable[[Agrees], Agrees]:
    def register(agrees: Agrees) -> Agrees:
        assert clause_id in contract()
        CLAUSES[clause_id] = agrees
        return agrees

    return register


def answer_of(exchange: Exchange, code: RequestCode) -> Frame | None:
    """The answer to such a request; None to any other."""
    return exchange.answer if exchange.code == code else None


@clause("RMQ-REM-04")
def opaque(exchange: Exchange) -> bool | None:
    return None if exchange.answer is None else bool(exchange.answer.head["flag"] & 1)


@clause("RMQ-REM-05")
def one_way(exchange: Exchange) -> bool | None:
    return exchange.answer is None if exchange.is_one_way else None


@clause("RMQ-NS-01")
def routes(exchange: Exchange) -> bool | None:
    answer = answer_of(exchange, RequestCode.GET_ROUTEINFO_BY_TOPIC)
    if answer is None or answer.head["code"] != ResponseCode.SUCCESS:
        return None
    route = json_dialect.loads(answer.body)
    named = {data["brokerName"] for data in route["brokerDatas"]}
    return {data["brokerName"] for data in route["queueDatas"]} <= named and all(
        {"perm", "readQueueNums", "writeQueueNums"} <= data.keys() for data in route["queueDatas"]
    )


@clause("RMQ-NS-02")
def unknown_topics(exchange: Exchange) -> bool | None:
    answer = answer_of(exchange, RequestCode.GET_ROUTEINFO_BY_TOPIC)
    if answer is None or answer.head["code"] == ResponseCode.SUCCESS:
        return None
    return bool(answer.head["code"] == ResponseCode.TOPIC_NOT_EXIST)


@clause("RMQ-SND-02")
def send_answers(exchange: Exchange) -> bool | None:
    is_single = exchange.code in (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2)
    if not is_single or exchange.answer is None or exchange.answer.head["code"] != 0:
        return None
    ext = exchange.answer.ext
    return len(ext["msgId"]) == 32 and int(ext["queueOffset"]) >= 0 and int(ext["queueId"]) >= 0


@clause("RMQ-SND-05")
def batches(exchange: Exchange) -> bool | None:
    answer = answer_of(exchange, RequestCode.SEND_BATCH_MESSAGE)
    if answer is None or answer.head["code"] != 0:
        return None
    identities = answer.ext["msgId"].split(",")
    return len(identities) > 1 and all(len(identity) == 32 for identity in identities)


@clause("RMQ-PUL-01")
def found(exchange: Exchange) -> bool | None:
    answer = answer_of(exchange, RequestCode.PULL_MESSAGE)
    if answer is None or answer.head["code"] != ResponseCode.SUCCESS:
        return None
    offset, following = int(exchange.request.ext["queueOffset"]), int(answer.ext["nextBeginOffset"])
    return offset < following <= int(answer.ext["maxOffset"]) and answer.body_size > 0


@clause("RMQ-PUL-02")
def at_the_end(exchange: Exchange) -> bool | None:
    answer = answer_of(exchange, RequestCode.PULL_MESSAGE)
    if answer is None or answer.head["code"] != ResponseCode.PULL_NOT_FOUND:
        return None
    return answer.ext["nextBeginOffset"] == exchange.request.ext["queueOffset"]


@clause("RMQ-PUL-06")
def nothing_matches(exchange: Exchange) -> bool | None:
    answer = answer_of(exchange, RequestCode.PULL_MESSAGE)
    if answer is None or answer.head["code"] != ResponseCode.PULL_RETRY_IMMEDIATELY:
        return None
    return int(answer.ext["nextBeginOffset"]) > int(exchange.request.ext["queueOffset"])


@clause("RMQ-LPL-02")
def waiting(exchange: Exchange) -> bool | None:
    """A pull that may wait and is answered "not found" has waited for its time, and not much longer."""
    answer = answer_of(exchange, RequestCode.PULL_MESSAGE)
    if answer is None or answer.head["code"] != ResponseCode.PULL_NOT_FOUND:
        return None
    ext = exchange.request.ext
    if not int(ext["sysFlag"]) & MAY_WAIT:
        return None
    hold_s = int(ext["suspendTimeoutMillis"]) / 1000
    waited_s = answer.at_s - exchange.request.at_s
    return hold_s - 0.1 <= waited_s <= hold_s + SCAN_S


@clause("RMQ-OFF-01")
def offsets(exchange: Exchange) -> bool | None:
    answer = answer_of(exchange, RequestCode.QUERY_CONSUMER_OFFSET)
    if answer is None:
        return None
    if answer.head["code"] == ResponseCode.QUERY_NOT_FOUND:
        return True
    return answer.head["code"] == 0 and int(answer.ext["offset"]) >= 0


@clause("RMQ-ORD-02")
def locks(exchange: Exchange) -> bool | None:
    answer = answer_of(exchange, RequestCode.LOCK_BATCH_MQ)
    if answer is None:
        return None
    wanted = json.loads(exchange.request.body)["mqSet"]
    held = json_dialect.loads(answer.body)["lockOKMQSet"]
    return all(any(queue.items() <= one.items() for one in wanted) for queue in held)


@clause("RMQ-RBL-01")
def members(exchange: Exchange) -> bool | None:
    answer = answer_of(exchange, RequestCode.GET_CONSUMER_LIST_BY_GROUP)
    if answer is None or answer.head["code"] != 0:
        return None
    return bool(json_dialect.loads(answer.body)["consumerIdList"])


@clause("RMQ-RTY-01")
def sent_back(exchange: Exchange) -> bool | None:
    answer = answer_of(exchange, RequestCode.CONSUMER_SEND_MSG_BACK)
    return None if answer is None else answer.head["code"] == 0


@pytest.mark.parametrize("clause_id", CLAUSES)
def test_real_broker_keeps_the_clause(clause_id: str) -> None:
    answers = [(one, CLAUSES[clause_id](one)) for one in exchanges()]

    touched = [one for one, agrees in answers if agrees is not None]
    broken = [one.request.head for one, agrees in answers if agrees is False]
    assert touched, "no recording touches this clause"
    assert broken == []


def test_pushes_of_the_real_broker_are_those_of_the_contract() -> None:
    """RMQ-RBL-02 (40) and RMQ-TXN-04 (39): one way, with the fields that clients need."""
    by_code = {int(frame.head["code"]): frame for frame in pushes()}

    assert by_code.keys() == {
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
        RequestCode.CHECK_TRANSACTION_STATE,
    }
    assert all(frame.head["flag"] & ONE_WAY for frame in by_code.values())
    assert "consumerGroup" in by_code[RequestCode.NOTIFY_CONSUMER_IDS_CHANGED].ext
    question = by_code[RequestCode.CHECK_TRANSACTION_STATE].ext
    assert {"tranStateTableOffset", "commitLogOffset", "msgId"} <= question.keys()
