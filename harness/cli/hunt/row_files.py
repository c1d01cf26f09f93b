"""Files with the rows of a hunt: a JSON line a seed, or Parquet where the name ends with .parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from staticfire.checkers.model.typed_fields import check_types
from staticfire.harness.cli.hunt.seeds import SeedResult
from staticfire.harness.cli.status import BadInput
from staticfire.spark_analysis.results.hunt_rows import from_parquet, to_parquet

PARQUET = ".parquet"
LISTS = ("bitten", "summary", "caveats", "anomalies")
VALID = {"true": True, "false": False, "unknown": "unknown"}  # text in Parquet -> verdict


def is_parquet(path: Path) -> bool:
    return path.suffix == PARQUET


def line_of(result: SeedResult) -> bytes:
    """Return the row as a JSON line."""
    return orjson.dumps(result.row) + b"\n"


def encoded(results: Sequence[SeedResult], path: Path) -> bytes:
    """Encode the rows in the form of this file's name, by commit, workload and seed."""
    ordered = sorted(results, key=lambda one: (one.commit, one.workload, one.seed))
    return _parquet(ordered) if is_parquet(path) else b"".join(map(line_of, ordered))


def read_rows(path: Path) -> list[SeedResult]:
    """Read the rows of a file, without a torn last line. Raises BadInput, OSError."""
    data = path.read_bytes()
    if data.startswith(b"PAR1"):
        return _of_parquet(data, path)
    results = []
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            break
        try:
            results.append(_result(orjson.loads(line)))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadInput(f"{path}: line {number} is no row of a hunt: {error}") from error
    return results


def _result(row: dict[str, Any]) -> SeedResult:
    result = SeedResult(**{**row, **{name: tuple(row[name]) for name in LISTS}})
    check_types(result, SeedResult, "row")
    return result


def _parquet(results: Sequence[SeedResult]) -> bytes:

    return to_parquet(
        [
            {
                **result.row,
                "valid": str(result.valid).lower(),
                "coverage": list(result.coverage.items()),
            }
            for result in results
        ]
    )


def _of_parquet(data: bytes, path: Path) -> list[SeedResult]:
    """Raises BadInput."""

    try:
        return [
            _result({**row, "valid": VALID[row["valid"]], "coverage": dict(row["coverage"])})
            for row in from_parquet(data)
        ]
    except (KeyError, TypeError, ValueError) as error:
        said = " ".join(str(error).split())
        raise BadInput(f"{path} holds no rows of a hunt: {said}") from error
