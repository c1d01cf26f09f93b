"""A workload from outside of the project: sends of a fixed size, as fast as each producer may."""

from __future__ import annotations

from random import Random
from typing import Any

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.workloads.workload import Workload


class EqualSends:
    """Sends `p<process>-<n>` of 64 bytes to the topic of the campaign."""

    def __init__(self, _random: Random, campaign: Campaign) -> None:
        self._topic = campaign.topic
        self._sent: dict[int, int] = {}

    def next_op(self, process: int) -> tuple[str, dict[str, Any]] | None:
        number = self._sent[process] = self._sent.get(process, 0) + 1
        return "send", {"key": f"p{process}-{number}", "size": 64, "topic": self._topic}


EQUAL = Workload(name="equal", summary="sends of 64 bytes", generator=EqualSends)
