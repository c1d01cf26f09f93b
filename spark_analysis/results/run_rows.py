"""The rows of an analysis of many runs as Parquet, one row per run, for Spark and other readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

TEXT, TEXTS = pa.string(), pa.list_(pa.string())
SCHEMA = pa.schema(
    [
        ("run", TEXT),  # its folder
        ("version", TEXT),  # the PATH or the commit, by which runs are compared
        ("made", TEXT),  # when the run was made, as yyyymmdd-hhmmss
        ("seed", pa.int64()),
        ("workload", TEXT),
        ("system", TEXT),
        ("environment", TEXT),
        ("mode", TEXT),
        ("flush", TEXT),
        ("replication", TEXT),
        ("commit", TEXT),
        ("staticfire", TEXT),
        ("valid", TEXT),  # true, false or unknown
        ("anomalies", TEXTS),  # with violations
        ("cause", TEXT),
        ("faults", TEXTS),  # kinds that bit
        ("acked", pa.int64()),
        ("verdict_sha256", TEXT),
        ("summary", TEXTS),
        ("failed", pa.bool_()),
        ("reason", TEXT),
        ("cpu_s", pa.float64()),
    ]
)


def to_parquet(rows: Sequence[Mapping[str, object]]) -> bytes:
    """Return the rows as Parquet with one row group."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], SCHEMA), sink)
    return bytes(sink.getvalue())
