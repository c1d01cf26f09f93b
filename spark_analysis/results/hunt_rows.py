"""The rows of a hunt as Parquet, one row per seed, for Spark and other readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

TEXT, TEXTS = pa.string(), pa.list_(pa.string())
SCHEMA = pa.schema(
    [
        ("seed", pa.int64()),
        ("workload", TEXT),
        ("valid", TEXT),
        ("digest", TEXT),
        ("acked", pa.int64()),
        ("bitten", TEXTS),
        ("dirty_power_cut", pa.bool_()),
        ("cpu_s", pa.float64()),
        ("summary", TEXTS),
        ("coverage", pa.map_(TEXT, pa.int64())),
        ("caveats", TEXTS),
        ("interrupted", pa.bool_()),
        ("failed", pa.bool_()),
        ("fingerprint", TEXT),
        ("anomalies", TEXTS),
        ("bred", TEXT),
        ("options", TEXT),
        ("commit", TEXT),
        ("environment", TEXT),
        ("wall_s", pa.float64()),
    ]
)


def to_parquet(rows: Sequence[dict[str, object]]) -> bytes:
    """Return the rows as Parquet. `valid` is true, false or unknown as text; `coverage`: pairs (mark, count)."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(list(rows), SCHEMA), sink)
    return bytes(sink.getvalue())


def from_parquet(data: bytes) -> list[dict[str, Any]]:
    """Read rows. Raises ValueError for data that is not Parquet."""
    try:
        rows: list[dict[str, Any]] = pq.read_table(pa.BufferReader(data)).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise ValueError(str(error)) from error
    return rows
