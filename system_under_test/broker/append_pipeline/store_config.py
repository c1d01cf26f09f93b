"""Derives the options of a store from a broker's options (RocketMQ, MessageStoreConfig)."""

from __future__ import annotations

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.store.appending.config import StoreConfig
from staticfire.system_under_test.store.retention_config import MS_PER_HOUR, RetentionConfig
from staticfire.system_under_test.store.transient_pool import PoolConfig


def make_store_config(config: BrokerConfig) -> StoreConfig:
    return StoreConfig(
        retention=RetentionConfig(
            reserved_ms=config.reserved_hours * MS_PER_HOUR,
            delete_hours=config.delete_hours,
            utc_offset_ms=config.utc_offset_s * 1000,
            max_used_ratio=config.disk_used_max / 100,
            force_ratio=config.disk_clean_ratio,
            warning_ratio=config.disk_warning_ratio,
            is_forcible=config.clean_forcibly,
            retry_hanging_ms=int(config.hanging_retry_s * 1000),
        ),
        root=config.store_path,
        log_folders=config.split_paths(config.commit_log_path),
        read_only_log_folders=config.split_paths(config.read_only_log_paths),
        commit_log_file_size=config.commit_log_file_size,
        consume_queue_file_size=config.consume_queue_file_size,
        extends_queues=config.extends_queues,
        extension_file_size=config.extension_file_size,
        buffered=True,  # answers wait for the write at the end of the turn
        pool=make_pool_config(config),
        message_size_max=config.message_size_max,
        index_enabled=config.index_enabled,
        index_slots=config.index_slots,
        index_numbers=config.index_numbers,
        pull_limits=config,  # the live object: limits may change while the broker runs
        is_slave=config.is_slave,
        delay_levels_ms=config.delay_levels_ms,
    )


def make_pool_config(config: BrokerConfig) -> PoolConfig | None:
    if not config.transient_pool:
        return None
    return PoolConfig(
        buffers=config.transient_pool_size,
        commit_pages=config.commit_pages,
        fails_fast=config.fail_fast_without_buffer,
    )
