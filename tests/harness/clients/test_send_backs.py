"""Send-backs in the history: who made the copy, and with which code the broker refused to make it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from staticfire.harness.clients.consumer import Reports
from staticfire.harness.clients.payload import make_body
from staticfire.harness.clients.port import ClientSide
from staticfire.system_under_test.client.producer.send_back import SentBack
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import SendStatus
from staticfire.system_under_test.protocol.message import Message


class FakePort:
    def __init__(self) -> None:
        self.emitted: list[tuple[str, str, dict[str, Any], str | None]] = []

    def emit(self, *report: Any) -> None:
        self.emitted.append(report)


@pytest.mark.parametrize(
    ("outcome", "type", "reported", "error"),
    [
        (SentBack(SendStatus.SEND_OK, False, True, None), "ok", {"copied": False}, None),
        (
            SentBack(SendStatus.SLAVE_NOT_AVAILABLE, False, True, None),
            "info",
            {"copied": False},
            "SLAVE_NOT_AVAILABLE",
        ),
        (
            SentBack(SendStatus.SEND_OK, True, True, 1, 1),
            "ok",
            {"copied": True, "code": 1, "attempts": 1},
            None,
        ),
        (
            SentBack(None, True, True, None, 3),
            "info",
            {"copied": True, "code": None, "attempts": 3},
            "no broker took it",
        ),
        (
            SentBack(SendStatus.SEND_OK, True, False, None, 2),
            "ok",
            {"copied": True, "attempts": 2},
            None,
        ),
    ],
)
def test_a_member_reports_what_the_broker_answered(
    outcome: SentBack, type: str, reported: dict[str, Any], error: str | None
) -> None:
    port = FakePort()
    message = Message(topic="t", body=make_body("p0-7", 20))
    message.queue_offset, message.reconsume_times = 5, 1
    Reports("g", cast(ClientSide, port)).sent_back(message, MessageQueue("t", "b", 2), outcome)

    held = {"group": "g", "topic": "t", "broker": "b", "queue": 2, "messages": [["p0-7", 5, 1]]}
    assert port.emitted == [(type, "send_back", {**held, **reported}, error)]
