"""Tracks whether a store still works, and makes the refusals after it has failed.

After a failed write or fsync the content of the disk is unknown: the store has failed for good. A full disk is not a
failure: the store refuses writes as long as the disk is full.
"""

from __future__ import annotations

from collections.abc import Callable

from staticfire.system_under_test.runtime.env import Log
from staticfire.system_under_test.store.disk_watch import DiskWatch
from staticfire.system_under_test.store.errors import NoSpace, StoreError
from staticfire.system_under_test.store.results import PutResult, PutStatus


class StoreHealth:
    """Remembers the first failure."""

    __slots__ = ("_disks", "_log", "dispatch_is_dead", "failure")

    def __init__(self, disks: DiskWatch, log: Log) -> None:
        self._disks = disks
        self._log = log
        self.failure: OSError | None = None  # the failed write or fsync that stopped the store
        self.dispatch_is_dead = False  # nothing that is appended becomes visible any more

    def failed(self, error: OSError) -> None:
        """Stop the store for good."""
        if self.failure is None:
            self.failure = error
            self._log.error("store stopped", reason=str(error))

    def check(self) -> None:
        """Raises StoreError if the store has failed."""
        if self.failure is not None:
            raise StoreError(self._reason(self.failure))

    def attempt(self, write: Callable[[], None]) -> None:
        """Call `write` unless the store has failed; an OSError of `write` makes it fail."""
        if self.failure is not None:
            return
        try:
            write()
        except OSError as error:
            self.failed(error)

    def refusal(self, error: OSError | NoSpace | None) -> PutResult:
        """The answer to a put that was not appended because of `error`; None: the disk is known to be full."""
        reason = self._reason(error) if isinstance(error, OSError) else self._disks.refusal()
        return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason=reason)

    @staticmethod
    def _reason(error: OSError) -> str:
        return f"the store is not writable: {error}"


class FaithfulHealth(StoreHealth):
    """As in RocketMQ, logs a failed write, and the store goes on.

    Bytes that could not be written stay in the buffer, and the next write includes them (MappedFile.commit0).
    """

    __slots__ = ()

    def failed(self, error: OSError) -> None:
        self._log.error("a write failed", reason=str(error))
