from __future__ import annotations

import pytest

from staticfire.system_under_test.client.producer.latency_faults import LatencyFaults
from staticfire.system_under_test.client.producer.queue_choice import QueueChooser
from staticfire.system_under_test.protocol.bodies import MessageQueue

QUEUES = [
    MessageQueue(topic="t", broker_name=name, queue_id=number)
    for name in ("a", "b", "c")
    for number in range(2)
]


def chooser(*, silent: str = "", avoided: str = "") -> QueueChooser:
    faults = LatencyFaults()
    for name in avoided:
        faults.record(name, 1000, now_ms=0)
    return QueueChooser(faults, lambda name: name not in silent, start=-1)


@pytest.mark.parametrize(
    ("silent", "avoided", "failed", "brokers"),
    [
        ("", "", None, "a a b b c c"),
        ("", "", "a", "b b b b c c"),
        ("b", "", None, "a a c c c c"),
        ("", "b", None, "a a c c c c"),
        ("b", "c", None, "a a a a a a"),
        ("ab", "c", None, "c c c c c c"),  # avoided, but it answers
        ("ac", "b", "b", "b b b b b b"),  # failed just now, but it is the only one that answers
        (
            "abc",
            "",
            "a",
            "b b b b c c",
        ),  # no broker answers: at least not the one of the last attempt
    ],
)
def test_choice(silent: str, avoided: str, failed: str | None, brokers: str) -> None:
    choice = chooser(silent=silent, avoided=avoided)
    chosen = [choice.choose(QUEUES, failed_broker=failed, now_ms=1).broker_name for _ in QUEUES]
    assert " ".join(chosen) == brokers
