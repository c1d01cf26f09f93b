"""The options that decide when a store deletes its files.

Names in comments are RocketMQ's (MessageStoreConfig and system properties).
"""

from __future__ import annotations

from dataclasses import dataclass

MS_PER_HOUR = 3_600_000


@dataclass(slots=True, kw_only=True)
class RetentionConfig:
    """Ages, hours and levels; a level is the used share of a file system, from 0 to 1."""

    reserved_ms: int = 72 * MS_PER_HOUR  # fileReservedTime
    delete_hours: tuple[int, ...] = (4,)  # deleteWhen
    utc_offset_ms: int = 0  # of the hours
    max_used_ratio: float = 0.75  # diskMaxUsedSpaceRatio
    force_ratio: float = 0.85  # rocketmq.broker.diskSpaceCleanForciblyRatio
    warning_ratio: float = 0.90  # rocketmq.broker.diskSpaceWarningLevelRatio
    is_forcible: bool = True  # cleanFileForciblyEnable
    retry_hanging_ms: int = 120_000  # redeleteHangedFileInterval
