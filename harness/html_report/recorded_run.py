"""Reads the folder of a run, or of a synthetic history, for its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from staticfire.checkers.formats.columnar.schema import FOLDER, MANIFEST
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.model.history import HistoryError, Observations, read_observations
from staticfire.checkers.model.plain_files import read_plain
from staticfire.checkers.verdicts.compose import ALL_CHECKERS, RunVerdict
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.html_report.history_rows import HistoryRows, open_history
from staticfire.harness.recording.history import read_run_history
from staticfire.harness.run_folder.faults_file import read_faults
from staticfire.harness.run_folder.run_folder import (
    CAMPAIGN_BYTES_MAX,
    CAMPAIGN_FILE,
    VERDICT_FILE,
    RunFolder,
    RunFolderError,
)
from staticfire.harness.run_folder.shrunk import (
    SHRUNK_CAMPAIGN,
    SHRUNK_FOLDER,
    STORY_FILE,
    TEXT_FILE,
)
from staticfire.harness.truncated_repr import truncated_repr
from staticfire.spark_analysis.runs.inputs import FACTS_FILE, read_facts

EXPLANATION_FILE = "explanation.json"
EXPLANATION_BYTES_MAX = 16 << 20
SHRUNK_BYTES_MAX = 4 << 20  # of a file of `staticfire shrink`
Record = Mapping[str, object]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The results of `staticfire shrink`, in a folder of the run."""

    folder: Path
    campaign_text: str  # of shrunk.toml
    text: str  # of shrunk.txt: the sizes before and after
    story: str  # of story.txt; "" while the shrink is still running


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """A recorded run as read from its folder. A synthetic history has no campaign and no faults."""

    path: Path
    verdict: RunVerdict
    facts: RunFacts
    document: Mapping[str, Any]  # of verdict.json, without verdict and facts
    campaign: Campaign | None
    campaign_text: str
    faults: Sequence[Record]  # lines of faults.jsonl
    observations: Observations
    history: HistoryRows
    is_checked: bool  # whether every file was compared with its checksum
    explanation: Mapping[str, object] = field(
        default_factory=dict
    )  # content of explanation.json, if it exists
    shrunk: Shrunk | None = None

    @property
    def run_s(self) -> float:
        """The duration of the run by its own clock, in seconds."""
        found = self.document.get("run_s")
        if isinstance(found, int | float) and 0 < found < 1e9:
            return float(found)
        return self.history.end_ns() / 1e9


def read_recorded(path: Path, say: Say) -> RecordedRun:
    """Read a finished run, or judge a synthetic history. `say` takes a line about work that takes long.

    Raises RunFolderError, HistoryError, OSError.
    """
    folder = RunFolder(path)
    if not path.is_dir():
        raise RunFolderError(f"{path} is not a folder; give the folder of a run")
    is_synthetic = (path / FACTS_FILE).exists() and not (path / VERDICT_FILE).exists()
    return _read_synthetic(folder, say) if is_synthetic else _read_run(folder)


def _read_run(folder: RunFolder) -> RecordedRun:
    document = folder.read_verdict()
    is_checked = folder.verify()
    campaign = folder.read_campaign()
    verdict, facts = _judged(folder, document)
    return RecordedRun(
        path=folder.path,
        verdict=verdict,
        facts=facts,
        document={name: document[name] for name in document if name not in ("verdict", "facts")},
        campaign=campaign,
        campaign_text=read_plain(folder.path / CAMPAIGN_FILE, CAMPAIGN_BYTES_MAX).decode(),
        faults=read_faults(folder.path / "faults.jsonl"),
        observations=_observations(folder.observations),
        history=open_history(folder.path, folder.columns, folder.history),
        is_checked=is_checked,
        explanation=_explanation(folder.path / EXPLANATION_FILE),
        shrunk=read_shrunk(folder.path / SHRUNK_FOLDER),
    )


def read_shrunk(folder: Path) -> Shrunk | None:
    """Read the results of `shrink`; None if there are none. Raises HistoryError, OSError."""
    if not (folder / SHRUNK_CAMPAIGN).exists():
        return None
    texts = {
        name: read_plain(folder / name, SHRUNK_BYTES_MAX).decode(errors="backslashreplace")
        if (folder / name).exists()
        else ""
        for name in (SHRUNK_CAMPAIGN, TEXT_FILE, STORY_FILE)
    }
    return Shrunk(
        folder=folder,
        campaign_text=texts[SHRUNK_CAMPAIGN],
        text=texts[TEXT_FILE],
        story=texts[STORY_FILE],
    )


def _explanation(path: Path) -> dict[str, object]:
    """Read the kept output of `staticfire explain --json`, if any. Raises RunFolderError."""
    if not path.exists():
        return {}
    try:
        found = orjson.loads(read_plain(path, EXPLANATION_BYTES_MAX))
    except ValueError as error:  # HistoryError, too
        raise RunFolderError(f"{path} is no explanation: {error}") from error
    if not isinstance(found, dict):
        raise RunFolderError(f"{path} is no explanation: it holds no object")
    return found


def _judged(folder: RunFolder, document: Mapping[str, Any]) -> tuple[RunVerdict, RunFacts]:
    """Raises RunFolderError."""
    try:
        verdict = RunVerdict.from_json(document["verdict"])
        facts = RunFacts.from_json(document["facts"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunFolderError(f"{folder.path / VERDICT_FILE} holds no verdict: {error}") from error
    for answer in (verdict.valid, *(of.valid for of in verdict.verdicts)):
        if answer not in (True, False, "unknown"):
            raise RunFolderError(
                f"{folder.path / VERDICT_FILE} has the answer {truncated_repr(answer)}; "
                "allowed: true, false, unknown"
            )
    return verdict, facts


def _read_synthetic(folder: RunFolder, say: Say) -> RecordedRun:
    """Raises HistoryError, OSError."""
    facts = read_facts(folder.path)
    columns = folder.path / FOLDER
    if not (columns / MANIFEST).exists():
        raise HistoryError(
            f"{folder.path} holds no history in columns per queue; `staticfire analyze` lays one out"
        )
    say(f"judging   {folder.path} has no verdict yet: its history is judged first")
    observations = _observations(folder.observations)
    history = read_run_history(folder.history, columns)
    facts = replace(facts, torn=history.torn)
    verdict = history.check(observations.records, facts, ALL_CHECKERS)
    return RecordedRun(
        path=folder.path,
        verdict=verdict,
        facts=facts,
        document={},
        campaign=None,
        campaign_text="",
        faults=[],
        observations=observations,
        history=open_history(folder.path, columns, folder.history),
        is_checked=not facts.unchecked,
    )


def _observations(path: Path) -> Observations:
    if not path.exists():
        return Observations(records=[], torn=False, unread=f"{path.name} is not there")
    return read_observations(path)
