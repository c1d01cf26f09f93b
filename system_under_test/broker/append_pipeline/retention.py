"""Runs the store's retention: every 10 s, and on request (RocketMQ, DefaultMessageStore.addScheduleTask)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.periodic import Schedule
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import Connection, Handler
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.retention.retention import Removal

FIRST_CLEAN_S = 60.0
DISK_CHECK_INTERVAL_S = 10.0


class Cleaning:
    """Carries out removals in the executor, one at a time with pauses; handles codes 306, 316 and 329.

    Args:
        fail: called when the disk has failed, with the removal in progress, which may or may not be durable.
        is_topic: whether a topic is configured.
        is_ready: whether this is a master that has everything its replicas have. The topic table of another broker
        may be older than its log.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        *,
        fail: Callable[[Removal | None, OSError], None],
        is_topic: Callable[[str], bool],
        is_ready: Callable[[], bool],
    ) -> None:
        self._config = config
        self._store = store
        self._fail = fail
        self._is_topic = is_topic
        self._is_ready = is_ready
        self._is_running = False
        self._asked: asyncio.Task[None] | None = None  # cleaning requested by an administrator

    def schedule(self, schedule: Schedule) -> None:
        schedule.call("disk check", DISK_CHECK_INTERVAL_S, self._store.disks.check)
        schedule.await_job(
            "retention", self._config.clean_interval_s, self.run, first_s=FIRST_CLEAN_S
        )

    async def run(self) -> None:
        """One cycle."""
        await self._carry_out(self._store.retention.clean())

    async def _carry_out(self, removals: Iterator[Removal]) -> None:
        if (
            self._is_running
        ):  # two at once could remove files in the wrong order; the next cycle catches up
            return
        self._is_running = True
        removal: Removal | None = None
        try:
            for removal in removals:
                await asyncio.get_running_loop().run_in_executor(None, removal.run)
                await asyncio.sleep(self._config.delete_pause_s)
        except OSError as error:  # also from the store's own file operations between two removals
            self._fail(removal, error)
        finally:
            self._is_running = False

    # Requests

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: self.clean_expired_queues,
            RequestCode.CLEAN_UNUSED_TOPIC: self.clean_unused_topics,
            RequestCode.DELETE_EXPIRED_COMMITLOG: self.delete_expired_log,
        }

    def delete_expired_log(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """Code 329: let the next 20 cycles remove expired files at any hour."""
        self._store.retention.delete_manually()
        return RemotingCommand.response(request, ResponseCode.SUCCESS)

    def clean_expired_queues(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """Code 306: remove queue files whose messages are deleted. The answer does not wait for it."""
        self._begin(self._store.retention.clean_queues())
        return RemotingCommand.response(request, ResponseCode.SUCCESS)

    def clean_unused_topics(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """Code 316: remove queue files of topics that are no longer configured. The answer does not wait for it."""
        self.clean_now()
        return RemotingCommand.response(request, ResponseCode.SUCCESS)

    def clean_now(self) -> None:
        """A topic was deleted: hide its messages, even from a topic of that name created later (RocketMQ, code 215)."""
        if self._is_ready():
            self._begin(self._store.retention.clean_unused(self._is_topic))

    def _begin(self, removals: Iterator[Removal]) -> None:
        self._asked = asyncio.get_running_loop().create_task(self._carry_out(removals))
