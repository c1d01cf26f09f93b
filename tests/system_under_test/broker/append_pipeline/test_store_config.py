"""A store gets its options in its own units."""

from __future__ import annotations

from staticfire.system_under_test.broker.append_pipeline.store_config import make_store_config
from staticfire.system_under_test.broker.config import BrokerConfig


def test_times_are_milliseconds_and_percentages_ratios() -> None:
    config = BrokerConfig(
        listen_host="127.0.0.1",
        listen_port=10911,
        broker_name="broker-a",
        store_path="/store",
        reserved_hours=48,
        utc_offset_s=-3600,
        hanging_retry_s=1.5,
        disk_used_max=60,
    )
    retention = make_store_config(config).retention
    assert retention.reserved_ms == 48 * 3_600_000
    assert retention.utc_offset_ms == -3_600_000
    assert retention.retry_hanging_ms == 1_500
    assert retention.max_used_ratio == 0.6
