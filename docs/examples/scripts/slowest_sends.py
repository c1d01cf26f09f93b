"""The slowest acknowledged sends of a run, and the faults that were on meanwhile: `slowest_sends.py RUN`.

It reads the columns of the run, as any tool for Parquet can; docs/history.md has their meaning.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.dataset as ds

OK, SHOWN = 0, 5


def main(run: Path) -> None:
    history = run / "history.parquet"
    sends = (
        ds.dataset(history / "ops", format="parquet")
        .to_table(filter=(ds.field("f") == "send") & (ds.field("type") == "ok"))
        .select(["invoke_ns", "time_ns", "node"])
    )
    took_ns = pc.subtract(sends["time_ns"], sends["invoke_ns"])
    sends = sends.append_column("took_ns", took_ns).sort_by([("took_ns", "descending")])
    faults = [json.loads(line) for line in (run / "faults.jsonl").read_text().splitlines()]
    print(f"{sends.num_rows} acknowledged sends")
    for send in sends.slice(0, SHOWN).to_pylist():
        on = [
            fault["kind"]
            for fault in faults
            if fault["fired_ns"] <= send["time_ns"] and send["invoke_ns"] <= fault["healed_ns"]
        ]
        print(f"{send['took_ns'] / 1e6:8.1f} ms  {send['node']}  {', '.join(on) or 'no fault'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
