"""Waits for what a case has stored: it must be readable a moment after its answer, and not at once.

RocketMQ makes queue entries apart from the log, a millisecond after the answer or, on a busy machine, much later.
"""

from __future__ import annotations

from collections.abc import Mapping

from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand

ELSEWHERE = ("DELAY", "TRAN_MSG")  # such messages are stored in another topic first


class StoredEnds:
    """The end of each queue that a broker has reported after storing messages for a case."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, str, int], int] = {}

    def note(
        self, address: str, topic: str, properties: Mapping[str, str], answer: RemotingCommand
    ) -> None:
        """The answer to a send."""
        if answer.code != ResponseCode.SUCCESS or any(name in properties for name in ELSEWHERE):
            return
        try:
            queue, offset = (int(answer.ext_fields[name]) for name in ("queueId", "queueOffset"))
        except (KeyError, ValueError):
            return  # what it should be is another case's question
        queue_key = (address, topic, queue)
        self._ends[queue_key] = max(self._ends.get(queue_key, 0), offset + 1)

    def end(self, address: str, topic: str, queue: int) -> int:
        """The least maximum of the queue that is to be expected; 0 if nothing is known."""
        return self._ends.get((address, topic, queue), 0)
