"""What a restarted master has to fetch from its slaves before it may accept sends, and what of that is still to do."""

from __future__ import annotations

from system_under_test.broker.config import BrokerConfig
from system_under_test.store.metadata_file import MetadataFile


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
    config: BrokerConfig, *, clean: bool, end_offset: int, was_interrupted: bool
) -> bool:
    """Whether a tail that was acknowledged may be on replicas only.

    With async flush after an unclean exit; with a log that is empty, as after the loss of a disk; and when an earlier
    catch-up did not come to its end. A log under sync flush lacks nothing else: what is not flushed here was never sent
    to a replica, and never acknowledged.
    """
    if config.is_slave or not config.ha_peers:
        return False
    return (not config.sync_flush and not clean) or end_offset == 0 or was_interrupted
