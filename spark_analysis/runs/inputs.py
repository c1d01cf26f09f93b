"""Finds the runs below a path that have a history in columns, by queue or raw."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from staticfire.checkers.formats.columnar.checksums import CHECKSUMS, verify_checksums
from staticfire.checkers.formats.columnar.manifest import Manifest, read_manifest
from staticfire.checkers.formats.columnar.schema import FOLDER, MANIFEST
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.model.history import HistoryError
from staticfire.checkers.model.plain_files import read_plain
from staticfire.spark_analysis.runs.raw import RAW_FOLDER, is_raw, read_raw_manifest

FACTS_FILE = "facts.json"
VERDICT_FILE = "verdict.json"
OBSERVATIONS_FILE = "observations.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInput:
    """One run: the folder of its history, and its facts."""

    label: str  # name of the path below which it was found
    path: Path  # folder of the run
    history: Path
    raw: bool
    manifest: Manifest
    facts: RunFacts

    @property
    def run_id(self) -> str:
        return self.manifest.run_id

    @property
    def observations(self) -> Path:
        """The file of the observations inside nodes, which may not exist."""
        return self.path.absolute() / OBSERVATIONS_FILE


def find_runs(
    paths: Sequence[Path], facts_of: Callable[[Path], RunFacts] | None = None
) -> list[RunInput]:
    """Return every run at or below the paths, path by path.

    Args:
        facts_of: reads the facts of a run's folder; None: `read_facts`.

    Raises HistoryError, also for a path without runs; OSError.
    """
    runs: list[RunInput] = []
    for path in paths:
        if not path.exists():
            raise HistoryError(f"{path} does not exist; give the folder of a run, or of many runs")
        found = [_read(path, folder, facts_of or read_facts) for folder in _histories(path)]
        if not found:
            raise HistoryError(
                f"{path} holds no history in columns ({FOLDER}); staticfire history convert makes one"
            )
        runs.extend(found)
    return runs


def _histories(path: Path) -> Iterator[Path]:
    """Yield folders with a manifest; a raw history only if the run has no history by queue."""
    for manifest in sorted(path.rglob(MANIFEST)):
        folder = manifest.parent
        if (
            folder.name == RAW_FOLDER
            and folder != path
            and (folder.parent / FOLDER / MANIFEST).exists()
        ):
            continue
        yield folder


def _read(path: Path, folder: Path, facts_of: Callable[[Path], RunFacts]) -> RunInput:
    raw = is_raw(folder)
    return RunInput(
        label=path.name or str(path),
        path=folder.parent,
        history=folder.absolute(),
        raw=raw,
        manifest=read_raw_manifest(folder) if raw else read_manifest(folder),
        facts=facts_of(folder.parent),
    )


def read_facts(run: Path) -> RunFacts:
    """Read the facts of a run from `facts.json`, or else from its `verdict.json`. Raises HistoryError, OSError."""
    for name in (FACTS_FILE, VERDICT_FILE):
        path = run / name
        if path.exists():
            try:
                document = orjson.loads(read_plain(path))
                unchecked = not verify_checksums(document, path)
                document.pop(CHECKSUMS, None)
                facts = RunFacts.from_json(document if name == FACTS_FILE else document["facts"])
                return replace(facts, unchecked=unchecked)
            except HistoryError:
                raise
            except (
                orjson.JSONDecodeError,
                KeyError,
                TypeError,
                AttributeError,
                ValueError,
            ) as error:
                raise HistoryError(f"the facts in {path} are damaged: {error}") from error
    raise HistoryError(
        f"{run} has no {FACTS_FILE} and no {VERDICT_FILE}: nothing says what this run promised"
    )
