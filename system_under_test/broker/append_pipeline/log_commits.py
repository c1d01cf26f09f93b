"""Commits the bytes in a transient store pool (RocketMQ, CommitLog.CommitRealTimeService)."""

from __future__ import annotations

from collections.abc import Callable

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.flow_control.flow_control import FlowControl
from staticfire.system_under_test.broker.periodic import Schedule
from staticfire.system_under_test.broker.text import size_text
from staticfire.system_under_test.store.assembly.message_store import MessageStore

NS_PER_S = 1_000_000_000


class LogCommits:
    """Writes puts to the page cache. Without a pool at the end of each turn of the loop, with one if enough have come.

    With a pool it commits nothing while a flush is stuck: a write to a disk that hangs would stop the whole broker.

    Args:
        on_commit: called after a commit that no caller waited for.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        flow: FlowControl,
        *,
        on_commit: Callable[[], None],
        now_ns: Callable[[], int],
    ) -> None:
        self._config = config
        self._store = store
        self._flow = flow
        self._on_commit = on_commit
        self._now_ns = now_ns
        self._last_ns = 0
        store.when_pool_is_empty(flow.pool_emptied)

    def schedule(self, schedule: Schedule) -> None:
        if self._config.transient_pool:
            schedule.call_after("commit", lambda: self._config.commit_interval_s, self._tick)

    def write_out(self) -> None:
        """Write the puts of this turn; with a pool, only if enough bytes wait."""
        if self._config.transient_pool and self._flow.is_stuck:
            return
        self._store.write_out()
        self._look_at_pool()

    def _tick(self) -> None:
        if self._flow.is_stuck:
            return
        before = self._store.readable_end
        now_ns = self._now_ns()
        if now_ns - self._last_ns >= self._config.commit_thorough_interval_s * NS_PER_S:
            self._last_ns = now_ns
            self._store.commit()
        else:
            self._store.write_out()
        self._look_at_pool()
        if self._store.readable_end > before or self._store.failure is not None:
            self._on_commit()

    def _look_at_pool(self) -> None:
        if self._store.buffers_left:
            self._flow.pool_refilled()

    def figures(self) -> dict[str, object]:
        """Lines of code 28."""
        if not self._config.transient_pool:
            return {}
        store = self._store
        return {
            "remainTransientStoreBufferNumbs": store.buffers_left,
            "remainHowManyDataToCommit": size_text(store.end_offset - store.readable_end),
        }
