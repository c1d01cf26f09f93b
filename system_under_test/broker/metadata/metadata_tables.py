"""The metadata of a broker (everything but messages), and the files in `config` that store it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.metadata.consumer_filters import (
    ConsumerFilters,
    FiltersFile,
)
from staticfire.system_under_test.broker.metadata.offsets import ConsumerOffsets, OffsetsFile
from staticfire.system_under_test.broker.metadata.subscription_groups import SubscriptionGroups
from staticfire.system_under_test.broker.metadata.topics import TopicChange, Topics
from staticfire.system_under_test.runtime.env import Clock, Storage
from staticfire.system_under_test.store.errors import StoreError
from staticfire.system_under_test.store.metadata_file import MetadataFile


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataTables:
    """The tables that slaves copy from their master, and that a master with a new disk restores from its slaves.

    `filters` are not copied: consumers send their expressions to slaves, too.
    """

    topics: Topics
    groups: SubscriptionGroups
    offsets: ConsumerOffsets
    offsets_file: OffsetsFile
    # delivery offsets of delayed messages; only a master has them in memory, too
    delay_offsets: MetadataFile
    filters: ConsumerFilters
    filters_file: FiltersFile


def make_tables(
    config: BrokerConfig,
    clock: Clock,
    offsets: ConsumerOffsets,
    file: Callable[[str], MetadataFile],
    *,
    on_topic_change: Callable[[TopicChange], None],
    before_delete: Callable[[str], None],
    queued_end: Callable[[], int],
) -> MetadataTables:
    """Make empty tables; `file` returns the file of a name, `queued_end` the end of messages with queue entries."""
    filters = ConsumerFilters(config, now_ms=clock.wall_ms, queued_end=queued_end)
    return MetadataTables(
        topics=Topics(
            config,
            file("topics.json"),
            now_ms=clock.wall_ms,
            on_change=on_topic_change,
            before_delete=before_delete,
        ),
        groups=SubscriptionGroups(config, file("subscriptionGroup.json"), now_ms=clock.wall_ms),
        offsets=offsets,
        offsets_file=OffsetsFile(offsets, file("consumerOffset.json")),
        delay_offsets=file("delayOffset.json"),
        filters=filters,
        filters_file=FiltersFile(filters, file("consumerFilter.json")),
    )


def load_files(storage: Storage, folder: str, loads: Mapping[str, Callable[[], object]]) -> None:
    """Call each of `loads`; its key names what it reads from `folder`. Raises StoreError, with one sentence."""
    try:
        if storage.exists(folder):
            storage.listdir(folder)
    except OSError as error:
        raise StoreError(f"folder {folder} cannot be used: {error}") from error
    for name, load in loads.items():
        try:
            load()
        except ValueError as error:
            raise StoreError(f"the {name} in {folder} cannot be used: {error}") from error
