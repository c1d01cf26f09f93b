"""Reads and writes files of docs/data/ with one row a piece, the sources of tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import orjson

Row = TypeVar("Row")


class IsDataclass(Protocol):
    """An instance of any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


def read_figures(path: Path, row: type[Row]) -> dict[str, Row]:
    """Return rows by the name of the piece; {} if the file does not exist. Raises OSError, ValueError."""
    if not path.exists():
        return {}
    document: dict[str, dict[str, Any]] = orjson.loads(path.read_bytes())
    return {name: row(**fields) for name, fields in document.items()}


def write_figures(path: Path, rows: Mapping[str, IsDataclass]) -> None:
    """Write all rows, one per line, atomically."""
    lines = [
        f"{orjson.dumps(name).decode()}: {orjson.dumps(asdict(rows[name])).decode()}"
        for name in sorted(rows)
    ]
    temporary = path.with_suffix(".tmp")
    temporary.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    temporary.replace(path)
