"""Batches that are one op each: keys are consecutive, within a batch and between batches."""

from __future__ import annotations

from random import Random

from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.generators.many_sends import ManySends


def test_keys_of_a_process_follow_each_other() -> None:
    given = {"workload": "bulk", "batch_messages": (3, 9), "sends_max": 40}
    sends = ManySends(Random(1), draw_campaign(1, given))
    behind = {0: 0, 1: 0}
    for number in range(40):
        op = sends.next_op(number % 2)
        assert op is not None
        f, value = op
        assert f == "send_many"
        assert value["key"] == f"p{number % 2}-{behind[number % 2]}"
        assert 3 <= value["count"] <= 9
        behind[number % 2] += value["count"]
    assert sends.next_op(0) is None
