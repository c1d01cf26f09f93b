"""The folder of one run, `runs/<time>-<workload>-<seed>/`, with everything to judge and to repeat the run.

campaign.toml, faults.jsonl, history.jsonl, history.parquet/ (the same as columns), observations.jsonl, verdict.json;
nodes/<name>/ with the log of each server and, unless the run was valid, its files.
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from staticfire.checkers.formats.columnar.checksums import (
    verify_checksums,
    verify_columns,
    with_checksums,
)
from staticfire.checkers.formats.columnar.schema import FOLDER, MANIFEST
from staticfire.checkers.guarantees.former_names import (
    ANOMALIES_RENAMED,
    FACTS_RENAMED,
    VERDICT_VERSION,
    VERSIONS_READ,
    with_current_facts,
    with_current_names,
)
from staticfire.checkers.model.history import HistoryError
from staticfire.checkers.model.plain_files import plain_size, read_plain
from staticfire.faults.errors import FaultError
from staticfire.faults.plans.plan import from_data
from staticfire.harness.campaign.campaign import LATER_OPTIONS, Campaign, CampaignError
from staticfire.harness.campaign.file import read_options
from staticfire.harness.diagnoses.catalogue import diagnose
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.recording.columns import ColumnKeeper, write_columns
from staticfire.harness.recording.nemesis import FaultRecord
from staticfire.harness.report.verdict_lines import explanations
from staticfire.harness.results.run_result import NodeRecord, RunResult
from staticfire.harness.truncated_repr import truncated_repr
from staticfire.harness.version import versions

CAMPAIGN_FILE = "campaign.toml"
CAMPAIGN_BYTES_MAX = 16 << 20
VERDICT_FILE = "verdict.json"
FAULTS_FILE = "faults.jsonl"


class RunFolderError(HistoryError):
    """A run folder is missing, half-written or unreadable. The text names the file and the mistake."""


class RecordFile(io.BufferedWriter):
    """A file that a run writes. A failed write or close raises RunFolderError."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path, "w"))
        self._path = path

    def write(self, data: Any) -> int:
        with _written(self._path):
            return super().write(data)

    def flush(self) -> None:
        with _written(self._path):
            super().flush()


@contextmanager
def _written(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunFolderError(
            f"{path} cannot be written: {error.strerror}; the run is not finished"
        ) from error


@dataclass(frozen=True, slots=True)
class RunFolder:
    path: Path

    @property
    def history(self) -> Path:
        return self.path / "history.jsonl"

    @property
    def columns(self) -> Path:
        return self.path / FOLDER

    @property
    def observations(self) -> Path:
        return self.path / "observations.jsonl"

    @classmethod
    def create(cls, root: Path, campaign: Campaign, stamp: str) -> RunFolder:
        """Make a new folder below `root`; a number is added if that name is taken.

        Raises RunFolderError if it cannot be made.
        """
        base = f"{stamp}-{campaign.workload}-{campaign.seed}"
        for number in range(1000):
            path = root / (base if number == 0 else f"{base}-{number}")
            try:
                path.mkdir(parents=True)
            except FileExistsError:
                continue
            except OSError as error:
                raise RunFolderError(f"cannot create {path}: {error.strerror}") from error
            try:
                (path / CAMPAIGN_FILE).write_text(campaign.to_toml(), encoding="utf-8")
            except OSError as error:
                shutil.rmtree(path, ignore_errors=True)
                raise RunFolderError(f"cannot write into {path}: {error.strerror}") from error
            return cls(path)
        raise RunFolderError(f"{root} holds 1000 runs named {base}; choose another --runs folder")

    def discard(self) -> None:
        """Remove the folder of a run that never began, since `analyze` would expect its verdict."""
        shutil.rmtree(self.path, ignore_errors=True)

    def discard_if_empty(self) -> None:
        """Remove the folder of a run that has no history."""
        if not self.history.exists() or not self.history.stat().st_size:
            self.discard()

    def open_history(self) -> BinaryIO:
        """A failed write raises RunFolderError."""
        return self._record_file(self.history)

    def open_observations(self) -> BinaryIO:
        """A failed write raises RunFolderError."""
        return self._record_file(self.observations)

    @contextmanager
    def keep_columns(self) -> Iterator[ColumnKeeper]:
        """Yield the sink that keeps the history as columns during the run. A failure is only printed."""
        keeper = ColumnKeeper(self.columns, self.path.name)
        try:
            yield keeper
        finally:
            if (reason := keeper.close()) is not None:
                print(f"staticfire: no columns are kept: {reason}", file=sys.stderr)

    def _record_file(self, path: Path) -> BinaryIO:
        with _written(path):
            return RecordFile(path)

    def finish(self, result: RunResult) -> None:
        """Write the files of a finished run. `verdict.json` comes last: without it a run is half-written.

        Raises RunFolderError.
        """
        with _written(self.path):
            self._finish(result)

    def _finish(self, result: RunResult) -> None:
        rows = (orjson.dumps(record.to_json()) + b"\n" for record in result.faults)
        (self.path / FAULTS_FILE).write_bytes(b"".join(rows))
        if not self.columns.exists():  # a real run has written them already
            write_columns(self.columns, self.path.name, result.ops)
        for node in result.nodes:
            self._keep_node(node)
        document = {
            "version": VERDICT_VERSION,
            "digest": result.digest,
            "versions": versions(),
            "up_s": result.up_s,
            "run_s": result.run_s,
            "facts": result.facts.to_json(),
            "verdict": result.verdict.to_json(),
            "diagnoses": [*explanations(result.verdict), *diagnose(result)],
        }
        document = with_checksums(document, self.path)
        half_written = self.path / f"{VERDICT_FILE}.tmp"
        half_written.write_bytes(
            orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS)
        )
        half_written.replace(self.path / VERDICT_FILE)

    def _keep_node(self, node: NodeRecord) -> None:
        """Write `nodes/<name>/log.jsonl`, and below `store/` the kept files of the node."""
        folder = self.path / "nodes" / node.name
        folder.mkdir(parents=True)
        lines = (orjson.dumps(line) + b"\n" for line in node.log)
        (folder / "log.jsonl").write_bytes(b"".join(lines))
        for path, data in node.store.items():
            target = folder / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)

    @property
    def is_finished(self) -> bool:
        """Whether the run has its verdict."""
        return (self.path / VERDICT_FILE).exists()

    def read_campaign(self) -> Campaign:
        """Read the campaign. Raises RunFolderError for a missing or damaged campaign.toml."""
        if not self.path.is_dir():
            raise RunFolderError(f"{self.path} is not a folder; give the folder of a run")
        path = self.path / CAMPAIGN_FILE
        try:
            if self.history.exists():
                plain_size(self.history)
            options = read_options(read_plain(path, CAMPAIGN_BYTES_MAX).decode(), str(path))
            for field in fields(Campaign):  # a missing option must not be drawn again
                if field.name in LATER_OPTIONS:
                    options.setdefault(field.name, field.default)
                elif field.name not in options:
                    raise RunFolderError(
                        f"{path} lacks {field.name}: it is not the campaign of a run"
                    )
            return draw_campaign(options.pop("seed"), options, is_recorded=True)
        except OSError as error:
            raise RunFolderError(f"{path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise RunFolderError(f"{path} is not UTF-8 text") from error
        except (CampaignError, HistoryError) as error:
            raise RunFolderError(str(error)) from error

    def read_faults(self) -> list[FaultRecord]:
        """Read the outcome of each fault of the plan; none without the file.

        Raises RunFolderError.
        """
        path = self.path / FAULTS_FILE
        if not path.exists():
            return []
        try:
            return [_fault_record(orjson.loads(line)) for line in read_plain(path).splitlines()]
        except OSError as error:
            raise RunFolderError(f"{path} cannot be read: {error.strerror}") from error
        except (FaultError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunFolderError(f"{path} holds a line that is no fault: {error}") from error

    def read_verdict(self) -> dict[str, Any]:
        """Read the verdict, with this version's names of anomalies and facts.

        Raises RunFolderError if the run did not finish or the file is damaged.
        """
        document = self._read_document()
        version = document.get("version", 1)
        if not isinstance(version, int) or version not in VERSIONS_READ:
            raise RunFolderError(
                f"{self.path / VERDICT_FILE} has version {truncated_repr(version)}; "
                f"allowed: 1 to {VERDICT_VERSION}"
            )
        if version < ANOMALIES_RENAMED:
            document["verdict"] = with_current_names(document["verdict"])
        if version < FACTS_RENAMED:
            document["facts"] = with_current_facts(document["facts"])
        return document

    def _read_document(self) -> dict[str, object]:
        """Read verdict.json. Raises RunFolderError if the run did not finish or the file is damaged."""
        if not self.path.is_dir():
            raise RunFolderError(f"{self.path} is not a folder; give the folder of a run")
        path = self.path / VERDICT_FILE
        try:
            document = orjson.loads(read_plain(path))
        except OSError as error:
            raise RunFolderError(
                f"{path} cannot be read ({error.strerror}): the run did not finish; "
                f"`staticfire run --campaign {self.path / CAMPAIGN_FILE}` does it again"
            ) from error
        except orjson.JSONDecodeError as error:
            raise RunFolderError(f"{path} is not valid JSON: {error}") from error
        except HistoryError as error:
            raise RunFolderError(str(error)) from error
        if not isinstance(document, dict) or not {"digest", "facts", "verdict"} <= set(document):
            raise RunFolderError(f"{path} lacks digest, facts or verdict")
        return document

    def recorded_by(self) -> str:
        """Return, as the end of a sentence, the version that recorded the run; empty if it did not record it.

        Raises RunFolderError.
        """
        found = self.read_verdict().get("versions")
        if not isinstance(found, dict):
            return ""
        commit = f" at {found['commit']}" if "commit" in found else ""
        return f", recorded by staticfire {found.get('staticfire')}{commit} on Python {found.get('python')}"

    def verify(self) -> bool:
        """Compare every file of the run with its checksum; False for a run that was recorded without checksums.

        Raises RunFolderError, HistoryError that names the file that differs, OSError.
        """
        if not verify_checksums(self._read_document(), self.path / VERDICT_FILE):
            return False
        if (self.columns / MANIFEST).exists():
            verify_columns(self.columns)
        return True


def _fault_record(row: dict[str, Any]) -> FaultRecord:
    [planned] = from_data([row])
    return FaultRecord(
        planned=planned,
        fired_ns=row["fired_ns"],
        struck_ns=row.get(
            "struck_ns", row["fired_ns"]
        ),  # earlier versions did not distinguish them
        healed_ns=row["healed_ns"],
        bitten=bool(row["bitten"]),
        evidence=dict(row["evidence"]),
        error=row.get("error"),
        incidents=[dict(one) for one in row.get("incidents", ())],
    )
