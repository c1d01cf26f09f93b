"""Tracks whether a restarted master must fetch data from its slaves before it may accept sends."""

from __future__ import annotations

from collections.abc import Callable

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.metadata.metadata_tables import MetadataTables
from staticfire.system_under_test.broker.replication.metadata_restore import MetadataRestore
from staticfire.system_under_test.runtime.env import Log
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.errors import StoreError
from staticfire.system_under_test.store.metadata_file import MetadataFile


class CatchUpMark:
    """Durably marks a catch-up that has begun: a master that dies during it must not take a partial log for complete.

    `is_open`: the log may lack messages that replicas have. `lacks_metadata`: topics, groups and offsets may be
    missing, too.
    """

    def __init__(self, file: MetadataFile) -> None:
        self._file = file
        self.is_open = False
        self.lacks_metadata = False

    def load(self) -> None:
        """Read the mark. Raises StoreError, or ValueError for a malformed document."""
        document = self._file.load() or {}
        self.is_open = document.get("open") is True
        self.lacks_metadata = document.get("lacksMetadata") is True

    def begin(self, *, lacks_metadata: bool) -> None:
        """Set the mark. Raises OSError if that cannot be made durable."""
        self.lacks_metadata = self.lacks_metadata or lacks_metadata
        self.is_open = True
        self._save()

    def end(self) -> None:
        """Clear the mark: the catch-up is complete or was lifted. Raises OSError; then the next start fetches again."""
        if self.is_open:
            self.is_open = self.lacks_metadata = False
            self._save()

    def _save(self) -> None:
        self._file.save({"open": self.is_open, "lacksMetadata": self.lacks_metadata})


def may_lack_acknowledged(
    config: BrokerConfig, *, clean: bool, cut_bytes: int, end_offset: int, was_interrupted: bool
) -> bool:
    """Whether acknowledged messages may exist on replicas only.

    That is so with async flush after an unclean exit, with an empty log, as after the loss of a disk, and if an earlier
    catch-up was interrupted. With sync flush, unflushed messages were neither sent to a replica nor acknowledged. But
    bytes that recovery has cut (`cut_bytes`) look like a torn write, and may be flushed records that the disk changed.
    """
    if config.is_slave or not config.ha_peers:
        return False
    is_short = cut_bytes > 0 or (not config.sync_flush and not clean)
    return is_short or end_offset == 0 or was_interrupted


class MasterCatchUp:
    """Decides whether this master must fetch log and metadata from its replicas, and ends the catch-up.

    HaService fetches the log.
    """

    def __init__(
        self,
        config: BrokerConfig,
        mark: CatchUpMark,
        restore: MetadataRestore,
        store: MessageStore,
        tables: MetadataTables,
        log: Log,
        *,
        living_queues: Callable[[], list[tuple[str, int]]],
    ) -> None:
        """`living_queues` returns (topic, queue id) of all queues with messages of topics that are not deleted."""
        self._config = config
        self._mark = mark
        self._restore = restore
        self._store = store
        self._tables = tables
        self._log = log
        self._living_queues = living_queues
        self.is_needed = False

    @property
    def restores_metadata(self) -> bool:
        return self.is_needed and self._mark.lacks_metadata

    def load(self) -> None:
        """Read the mark. Raises StoreError, or ValueError for a malformed document."""
        self._mark.load()

    def begin(self, *, clean: bool, cut_bytes: int) -> None:
        """Decide, and save the decision before anything is fetched. Raises StoreError if that fails."""
        mark, end_offset = self._mark, self._store.end_offset
        if not may_lack_acknowledged(
            self._config,
            clean=clean,
            cut_bytes=cut_bytes,
            end_offset=end_offset,
            was_interrupted=mark.is_open,
        ):
            return
        try:
            mark.begin(lacks_metadata=end_offset == 0)
        except OSError as error:
            raise StoreError(
                f"the catch-up of {self._config.store_path} cannot be begun: {error}"
            ) from error
        self.is_needed = True

    async def peer_heard(self, peer: str) -> bool:
        """A replica has sent all of its log: with a new disk, fetch its metadata, too; False: ask this peer again."""
        return not self.restores_metadata or await self._restore.restore_from(peer)

    async def end(self) -> bool:
        """End the catch-up: the log is complete and dispatched. Returns whether metadata had to be restored."""
        restored = self.restores_metadata
        try:
            if restored:  # topics newer than the slaves' last copy exist only in the log
                self._tables.topics.cover(self._living_queues())
                await self._tables.offsets_file.save()
            if self.is_needed:
                self._mark.end()
        except OSError as error:  # a full disk: the next start fetches again, which is harmless
            self._log.warning("end of the catch-up was not written", error=str(error))
        self.is_needed = False
        return restored
