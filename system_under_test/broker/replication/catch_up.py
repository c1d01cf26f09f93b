"""Tracks what a restarted master still has to fetch from its slaves before it may accept sends."""

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
    """Says durably that a catch-up has begun: a master that dies in the middle must not take the part for the whole.

    `is_open`: the log may lack what replicas have. `lacks_metadata`: topics, groups and offsets may be missing, too.
    """

    def __init__(self, file: MetadataFile) -> None:
        self._file = file
        self.is_open = False
        self.lacks_metadata = False

    def load(self) -> None:
        """Raises StoreError, or ValueError for a document of another shape."""
        document = self._file.load() or {}
        self.is_open = document.get("open") is True
        self.lacks_metadata = document.get("lacksMetadata") is True

    def begin(self, *, lacks_metadata: bool) -> None:
        """Raises OSError if the mark cannot be made durable."""
        self.lacks_metadata = self.lacks_metadata or lacks_metadata
        self.is_open = True
        self._save()

    def end(self) -> None:
        """Everything was fetched, or an admin does without. Raises OSError; then the next start fetches again."""
        if self.is_open:
            self.is_open = self.lacks_metadata = False
            self._save()

    def _save(self) -> None:
        self._file.save({"open": self.is_open, "lacksMetadata": self.lacks_metadata})


def may_lack_acknowledged(
    config: BrokerConfig, *, clean: bool, cut_sound: bool, end_offset: int, was_interrupted: bool
) -> bool:
    """Whether a tail that was acknowledged may be on replicas only.

    With async flush after an unclean exit; with a log that is empty, as after the loss of a disk; and when an earlier
    catch-up did not come to its end. Under sync flush what is not flushed here was never sent to a replica, and never
    acknowledged; but where recovery has cut sound records (`cut_sound`), they may have been flushed, and the disk may
    have changed the one before them.
    """
    if config.is_slave or not config.ha_peers:
        return False
    is_short = cut_sound or (not config.sync_flush and not clean)
    return is_short or end_offset == 0 or was_interrupted


class MasterCatchUp:
    """Whether this master has to hear its replicas, whether it needs their metadata, too, and the end of it.

    The log is fetched by HaService.
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
        """`living_queues`: (topic, queue id) of the queues, but those that only hold messages of a deleted topic."""
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
        """Raises StoreError, or ValueError for a document of another shape."""
        self._mark.load()

    def begin(self, *, clean: bool, cut_sound: bool) -> None:
        """Decide, and write the decision down before anything is fetched. Raises StoreError if that fails."""
        mark, end_offset = self._mark, self._store.end_offset
        if not may_lack_acknowledged(
            self._config,
            clean=clean,
            cut_sound=cut_sound,
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
        """A replica has given all of its log; a broker with a new disk asks it for its metadata, too."""
        return not self.restores_metadata or await self._restore.restore_from(peer)

    async def end(self) -> bool:
        """The log is complete and dispatched. Returns whether metadata had to be restored."""
        restored = self.restores_metadata
        try:
            if restored:  # topics younger than the slaves' last look are in the log alone
                self._tables.topics.cover(self._living_queues())
                await self._tables.offsets_file.save()
            if self.is_needed:
                self._mark.end()
        except OSError as error:  # a full disk: the next start fetches again, which does no harm
            self._log.warning("end of the catch-up was not written", error=str(error))
        self.is_needed = False
        return restored
