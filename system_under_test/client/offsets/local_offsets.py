"""Keeps the offsets of one member of a broadcast group in its own file (RocketMQ: LocalFileOffsetStore).

The file survives a power cut at any moment; messages consumed after the last save come again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from staticfire.system_under_test.client.errors import ClientError
from staticfire.system_under_test.client.offsets.offset_store import OffsetUnknown
from staticfire.system_under_test.client.offsets.queue_bounds import ConsumeFrom, QueueBounds
from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.bodies_queues import ResetOffsetBody
from staticfire.system_under_test.remoting import RemotingError
from staticfire.system_under_test.store.errors import StoreError
from staticfire.system_under_test.store.folders import make_durable_folder, parent_folder
from staticfire.system_under_test.store.metadata_file import replace_atomically

# Called with the offsets that a save has changed.
OnSaved = Callable[[dict[MessageQueue, int]], None]


class LocalOffsets:
    """The file `<folder>/<client id>/<group>/offsets.json`, in RocketMQ's format. `on_saved` is called after each save.

    The constructor raises OSError if the folder cannot be used, ValueError if the file is malformed.
    """

    def __init__(
        self,
        client: ClientInstance,
        group: str,
        folder: str,
        *,
        timestamp_ms: int | None = None,
        on_saved: OnSaved | None = None,
    ) -> None:
        self._on_saved = on_saved
        self._storage = client.env.storage
        self._log = client.env.log
        self._bounds = QueueBounds(client, timestamp_ms=timestamp_ms)
        self.path = f"{folder}/{client.client_id}/{group}/offsets.json"
        self._offsets = self._load()
        self._saved = dict(self._offsets)

    async def start_offset(self, queue: MessageQueue, consume_from: ConsumeFrom) -> int:
        """This member's saved offset, or where a new member starts. Raises OffsetUnknown."""
        if queue in self._offsets:
            return self._offsets[queue]
        try:
            return await self._bounds.first_start(queue, consume_from)
        except (RemotingError, ClientError, ValueError) as error:
            raise OffsetUnknown(f"offset of {queue}: {error}") from error

    def commit(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Keep the offsets in memory; `save` makes them durable."""
        self._offsets.update(offsets)
        return dict(offsets)

    async def save(self) -> None:
        """Save changed offsets in another thread. Logs a failure; the next call tries again."""
        if self._offsets == self._saved:
            return
        offsets = dict(self._offsets)
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._write, offsets)
        except (OSError, StoreError) as error:
            self._log.warning("offsets were not saved", path=self.path, error=str(error))
            return
        before, self._saved = self._saved, offsets
        if self._on_saved is not None:
            self._on_saved({q: at for q, at in offsets.items() if before.get(q) != at})

    def _write(self, offsets: dict[MessageQueue, int]) -> None:
        make_durable_folder(self._storage, parent_folder(self.path))
        body = ResetOffsetBody(offset_table={queue: offsets[queue] for queue in sorted(offsets)})
        replace_atomically(self._storage, self.path, body.encode())

    def _load(self) -> dict[MessageQueue, int]:
        if not self._storage.exists(self.path):
            return {}
        file = self._storage.open(self.path)
        try:
            return dict(ResetOffsetBody.from_bytes(file.pread(file.size(), 0)).offset_table)
        finally:
            file.close()
