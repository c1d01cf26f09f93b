"""Formats times and sizes as RocketMQ prints them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_text(time_ms: int, utc_offset_s: int) -> str:
    """`2020-09-13 12:26:40,000` in the time zone `utc_offset_s`; "" beyond the year 9999."""
    return _text(time_ms, utc_offset_s, "%Y-%m-%d %H:%M:%S,")


def stamp_text(time_ms: int, utc_offset_s: int) -> str:
    """`2020-09-13#12:26:40:000`, which mqadmin parses (UtilAll.YYYY_MM_DD_HH_MM_SS_SSS); "" beyond the year 9999."""
    return _text(time_ms, utc_offset_s, "%Y-%m-%d#%H:%M:%S:")


def _text(time_ms: int, utc_offset_s: int, pattern: str) -> str:
    try:
        time = EPOCH + timedelta(seconds=utc_offset_s, milliseconds=time_ms)
    except OverflowError:
        return ""
    return f"{time:{pattern}}{time.microsecond // 1000:03d}"


def size_text(size_bytes: int) -> str:
    """A size as RocketMQ prints it (MixAll.humanReadableByteCount, units of 1024)."""
    value, unit = float(size_bytes), ""
    for unit in ("", "Ki", "Mi", "Gi", "Ti", "Pi"):
        if value < 1024 or unit == "Pi":
            break
        value /= 1024
    return f"{size_bytes} B" if not unit else f"{value:.1f} {unit}B"
