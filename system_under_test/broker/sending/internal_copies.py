"""Writes the broker's own copies of messages: due delayed messages, retries, transaction records.

RocketMQ writes them with setWaitStoreMsgOK(false): it answers the requester and counts progress while the copy may
still be in memory only. Here copies wait for flush and replication, like sends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from staticfire.system_under_test.broker.config import BrokerRole
from staticfire.system_under_test.broker.sending.pending_sends import Answer
from staticfire.system_under_test.broker.sending.visibility import Log, Replicas
from staticfire.system_under_test.broker.statistics.statistics import BrokerStatistics
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.results import PutResult, PutStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPolicy:
    """Decides when a copy counts as stored.

    Attributes:
        waits: whether the requester of a copy waits for its flush and replication.
        requester_code: maps the status of the copy to the code that its requester gets.
        safe_end: returns the physical offset up to which copies count as progress.
    """

    waits: bool
    requester_code: Callable[[ResponseCode], ResponseCode]
    safe_end: Callable[[Log, Replicas, BrokerRole], int]


def reported_status(code: ResponseCode) -> ResponseCode:
    """Report the status of the copy: weakly stored is not success."""
    return code


def weak_is_success(_code: ResponseCode) -> ResponseCode:
    """Report success for any stored copy (RocketMQ, EndTransactionProcessor.sendFinalMessage; issue 4806, bug R36)."""
    return ResponseCode.SUCCESS


class InternalCopies:
    """Appends copies, and reports each to the flush and to the caller that waits for it.

    Args:
        statistics: counts copies like sends.
        acknowledge: gets every stored copy like a send: end offset, answer, whether to wait.
        on_refusal: called when the store has refused a copy: its disk may have failed.
    """

    def __init__(
        self,
        store: MessageStore,
        policy: CopyPolicy,
        statistics: BrokerStatistics,
        *,
        acknowledge: Callable[[int, Answer, bool], None],
        safe_end: Callable[[], int],
        on_refusal: Callable[[], None],
    ) -> None:
        self._store = store
        self._policy = policy
        self._statistics = statistics
        self._acknowledge = acknowledge
        self._on_refusal = on_refusal
        self.safe_end = safe_end  # returns the physical offset up to which copies count

    def put(self, message: Message) -> PutResult:
        """Append a copy without waiting for it."""
        result = self._append(message)
        if result.status is PutStatus.PUT_OK:
            self._acknowledge(result.end_offset, _unawaited, False)
        return result

    def put_for(self, message: Message, answer: Answer, *, waits: bool | None = None) -> PutResult:
        """Append a copy; on success, call `answer` when it counts. `waits` overrides the policy."""
        result = self._append(message)
        if result.status is PutStatus.PUT_OK:
            requester_code = self._policy.requester_code
            self._acknowledge(
                result.end_offset,
                lambda code: answer(requester_code(code)),
                self._policy.waits if waits is None else waits,
            )
        return result

    def _append(self, message: Message) -> PutResult:
        result = self._store.put(message)
        if result.status is PutStatus.PUT_OK:
            self._statistics.put(message.topic, message.queue_id, 1, result.size_bytes)
        else:
            self._statistics.failed_puts += 1
            self._on_refusal()
        return result


def _unawaited(_code: int) -> None:
    """Ignores the answer: no caller waits for the copy."""
