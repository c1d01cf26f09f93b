"""A measurement that is made in pieces: a file holds what is counted, and the next piece goes on behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from tests.checkers.mutations.score import Done, Score, Scores, Task, merged

COUNTERS = ("named", "by_workload", "detected_by_workload")


class OtherMeasurement(ValueError):
    """The file is of another measurement, or of none; the message says why."""


@dataclass(slots=True)
class Pieces:
    """What is measured so far, kept in `path` if there is one. All pieces have the same options."""

    path: Path | None
    options: Mapping[str, Any]
    parts: dict[Done, Score] = field(default_factory=dict)

    def read(self) -> None:
        """Take over what the file holds, if it is there. Raises OtherMeasurement."""
        if self.path is None or not self.path.exists():
            return
        try:
            kept = orjson.loads(self.path.read_bytes())
            options, rows = kept["options"], kept["rows"]
            parts = {(r["kind"], r["workload"], r["site"]): _score(r["score"]) for r in rows}
        except (ValueError, KeyError, TypeError) as error:
            raise OtherMeasurement(f"{self.path} holds no measurement: {error!r}") from error
        if options != dict(self.options):
            raise OtherMeasurement(
                f"{self.path} was measured with {options}, not with {dict(self.options)}; "
                "give the same options, or another file"
            )
        self.parts = parts

    def add(self, task: Task, scores: Scores) -> None:
        """Count what came of a task, and keep it."""
        for (kind, site), score in scores.items():
            self.parts[kind, task.workload, site] = score
        if self.path is None:
            return
        rows = [
            {"kind": kind, "workload": workload, "site": site, "score": score}
            for (kind, workload, site), score in sorted(self.parts.items())
        ]
        written = self.path.with_suffix(".part")
        written.write_bytes(orjson.dumps({"options": dict(self.options), "rows": rows}))
        written.replace(self.path)

    def scores(self) -> Scores:
        """The counts of all pieces."""
        return merged({(kind, site): score} for (kind, _, site), score in self.parts.items())


def _score(fields: Mapping[str, Any]) -> Score:
    counters = {name: Counter(fields[name]) for name in COUNTERS}
    return Score(**{**fields, **counters})
