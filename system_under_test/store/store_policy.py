"""What the hardened system and 4.9.8 decide differently in a store. The values are in `policies`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from system_under_test.store.flush import SyncPlan
from system_under_test.store.key_search import EXACT_SEARCH, KeySearchRules
from system_under_test.store.mapped_file import MappedFileQueue

__all__ = ["CAREFUL_STORE", "StorePolicy", "try_to_sync"]


def try_to_sync(plan: SyncPlan) -> None:
    """A failed fsync counts as one that worked (RocketMQ #2706, bug R01: MappedFile.flush)."""
    with suppress(OSError):
        plan.run()


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePolicy:
    """Decisions of a store."""

    sync_log: Callable[[SyncPlan], None]  # R01
    # R04 (RocketMQ #10666): without a wipe, a later recovery runs from the new tail into the old one
    cut_log: Callable[[MappedFileQueue, int], None]
    # A full disk: queue entries have their space before a send is acknowledged, and dispatch waits for space. Without,
    # the broker goes on acknowledging what nobody will ever see (RocketMQ: ReputMessageService dies of the error).
    keeps_room_for_entries: bool
    key_search: KeySearchRules  # other keys of one hash, and seconds for milliseconds


CAREFUL_STORE = StorePolicy(
    sync_log=SyncPlan.run,
    cut_log=MappedFileQueue.cut,
    keeps_room_for_entries=True,
    key_search=EXACT_SEARCH,
)
