"""Remembers the ends of queues, so that a case can wait until its stored messages are readable.

RocketMQ writes queue entries after the log: a millisecond after the answer or, on a busy machine, much later.
"""

from __future__ import annotations

from collections.abc import Mapping

from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand

ELSEWHERE = ("DELAY", "TRAN_MSG")  # the broker first stores such messages in another topic


class StoredEnds:
    """The end of each queue that a broker has reported after storing messages for a case."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, str, int], int] = {}

    def note(
        self, address: str, topic: str, properties: Mapping[str, str], answer: RemotingCommand
    ) -> None:
        """Note the queue's end from the answer to a send."""
        if answer.code != ResponseCode.SUCCESS or any(name in properties for name in ELSEWHERE):
            return
        try:
            queue, offset = (int(answer.ext_fields[name]) for name in ("queueId", "queueOffset"))
        except (KeyError, ValueError):
            return  # another case checks the value
        queue_key = (address, topic, queue)
        self._ends[queue_key] = max(self._ends.get(queue_key, 0), offset + 1)

    def end(self, address: str, topic: str, queue: int) -> int:
        """Return the least maximum offset that the queue must have; 0 if unknown."""
        return self._ends.get((address, topic, queue), 0)
