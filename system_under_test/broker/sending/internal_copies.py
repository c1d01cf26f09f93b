"""Messages that the broker itself writes: delivered delayed ones, retries, transaction records.

RocketMQ writes them with setWaitStoreMsgOK(false): the requester of one is answered, and progress counts, while the
copy may still be in memory only. Here they wait like sends.
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
    """When a copy counts.

    Attributes:
        waits: the requester of a copy waits for its flush and replication.
        hears: the code that the requester of a copy gets, by how safe the copy is.
        safe_end: up to which physical offset copies count as progress.
    """

    waits: bool
    hears: Callable[[ResponseCode], ResponseCode]
    safe_end: Callable[[Log, Replicas, BrokerRole], int]


def reported_status(code: ResponseCode) -> ResponseCode:
    """A copy that is only weakly stored is no success."""
    return code


def weak_is_success(_code: ResponseCode) -> ResponseCode:
    """Whatever is stored counts (RocketMQ, EndTransactionProcessor.sendFinalMessage; issue 4806, bug R36)."""
    return ResponseCode.SUCCESS


class InternalCopies:
    """Appends messages, and reports each to the flush and to the caller that waits for it.

    Args:
        statistics: counts them like what was sent.
        acknowledge: gets every stored copy like a send: end offset, answer, whether to wait.
        on_refusal: called when the store refused: its disk may have failed.
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
        self.safe_end = safe_end  # physical offset below which copies count

    def put(self, message: Message) -> PutResult:
        """Append a copy without waiting for it."""
        result = self._append(message)
        if result.status is PutStatus.PUT_OK:
            self._acknowledge(result.end_offset, _unawaited, False)
        return result

    def put_for(self, message: Message, answer: Answer, *, waits: bool | None = None) -> PutResult:
        """Append a copy; if that succeeds, `answer` is called when the copy counts, or as soon as `waits` says."""
        result = self._append(message)
        if result.status is PutStatus.PUT_OK:
            hears = self._policy.hears
            self._acknowledge(
                result.end_offset,
                lambda code: answer(hears(code)),
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
