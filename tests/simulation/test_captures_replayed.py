"""Recorded sessions of real Java and C++ clients, played against our name server, master and slave."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import decode_records
from tests.support.capture_replay import (
    CAPTURES,
    HOSTS,
    RECORDED_ADDRESSES,
    Frame,
    Replay,
    read_capture,
)

SESSIONS = sorted(
    path.stem for path in CAPTURES.glob("*.jsonl") if path.stem != "cpp-sendback-direct"
)
# Fields whose values are facts of the recorded broker's past.
POSITIONS = {"msgId", "offsetMsgId", "commitLogOffset", "tranStateTableOffset", "transactionId"}
POSITIONS |= {"indexLastUpdatePhyoffset", "indexLastUpdateTimestamp"}


# Facts of the recorded broker's past that are no positions: delayed messages before this one, when its store began.
PAST = {("java-send", 15, "queueOffset"), ("java-send", 29, "timestamp")}
# The broker handled a pull before the heartbeat that was sent before it: its threads raced. Ours has one.
RACES = {("java-push", 53)}


@cache
def replay(name: str) -> Replay:
    """The session, after the one that filled its topic."""
    first = "java-send" if name.startswith("java") else "cpp-send"
    played = Replay(topic="TV" if first == "java-send" else "TP")
    played.play(*dict.fromkeys([first, name]))
    return played


def answers(name: str) -> list[tuple[Frame, RemotingCommand | None]]:
    heard = replay(name).heard[name]
    return [
        (frame, heard[frame.conversation].answers.get(frame.head["opaque"]))
        for frame in read_capture(name)
        if not frame.from_client and frame.is_response
    ]


def is_other(name: str, frame: Frame, key: str, value: str, ours: str | None) -> bool:
    """Whether our field differs from the captured one. The past of a broker may differ, but must be present."""
    if key in POSITIONS or (name, frame.head["opaque"], key) in PAST:
        return ours is None
    return ours != value


def first_line(remark: str | None) -> str:
    """RocketMQ's remarks end with the address of its FAQ on a line of its own."""
    return (remark or "").partition("\n")[0]


def describe(frame: Frame) -> str:
    return f"{frame.at_s:.3f} s, {frame.conversation}, opaque {frame.head['opaque']}"


@pytest.mark.parametrize("name", SESSIONS)
def test_every_answer_has_the_recorded_code_and_remark(name: str) -> None:
    wrong = [
        (describe(frame), frame.head["code"], ours and (ours.code, ours.remark))
        for frame, ours in answers(name)
        if (name, frame.head["opaque"]) not in RACES
        and (
            ours is None
            or (ours.code, first_line(ours.remark))
            != (frame.head["code"], first_line(frame.head.get("remark")))
        )
    ]
    assert wrong == []


@pytest.mark.parametrize("name", SESSIONS)
def test_every_answer_has_the_recorded_fields(name: str) -> None:
    wrong = [
        (describe(frame), key, value, ours.ext_fields.get(key))
        for frame, ours in answers(name)
        if ours is not None
        for key, value in frame.ext.items()
        if is_other(name, frame, key, value, ours.ext_fields.get(key))
    ]
    assert wrong == []


@pytest.mark.parametrize("name", SESSIONS)
def test_every_body_is_what_the_client_reads(name: str) -> None:
    wrong = []
    for frame, ours in answers(name):
        if ours is None:
            continue
        if frame.body.startswith(b"{"):
            same = read_json(ours.body, ours=True) == read_json(frame.body, ours=False)
        elif frame.body:
            same = len(ours.body) == frame.body_size and bool(decode_records(ours.body))
        else:
            same = not ours.body
        if not same:
            wrong.append((describe(frame), frame.body[:300], ours.body[:300]))
    assert wrong == []


@pytest.mark.parametrize("name", SESSIONS)
def test_clients_get_the_captured_requests_and_answers(name: str) -> None:
    heard = replay(name).heard[name]
    recorded = {
        (frame.conversation, frame.head["code"], tuple(sorted(frame.ext)))
        for frame in read_capture(name)
        if not frame.from_client and not frame.is_response
    }
    ours = {
        (conversation, request.code, tuple(sorted(request.ext_fields)))
        for conversation, one in heard.items()
        for request in one.requests
    }
    assert ours == recorded


def read_json(body: bytes, *, ours: bool) -> Any:
    """The body as a client reads it, with the recorded addresses in place of ours; order does not matter in sets."""
    text = body.decode()
    if ours:
        for node, address in RECORDED_ADDRESSES.items():
            text = text.replace(f"{HOSTS[node][0]}:{HOSTS[node][1]}", address)
    return json.loads(json.dumps(json_dialect.loads(text), sort_keys=True))
