"""One run as a row: its origin, its verdict as from `staticfire check`, or the reason that it cannot be judged."""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import orjson

from staticfire.checkers.formats.columnar.manifest import read_manifest
from staticfire.checkers.formats.columnar.schema import MANIFEST
from staticfire.checkers.guarantees.verdict import Validity
from staticfire.checkers.model.history import HistoryError
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.cli.analyze.folders import MARKS, is_of_run
from staticfire.harness.cli.check.command import judge
from staticfire.harness.raised_text import raised_text
from staticfire.harness.report.verdict_lines import verdict_lines
from staticfire.harness.results.fingerprint import full_fingerprint
from staticfire.harness.run_folder.run_folder import VERDICT_FILE, RunFolder

LINES_BYTES_MAX = 256 << 20  # of a history that one of many processes judges
ROWS_MAX = 4_000_000  # rows of a history in columns
STAMP = re.compile(r"\d{8}-\d{6}(?=-|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """The row of one run. A run that cannot be judged has only `run`, `made`, `failed` and `reason`."""

    run: str  # its folder
    made: str  # when, as yyyymmdd-hhmmss of local time
    version: str = ""  # the version by which it is compared
    seed: int | None = None
    workload: str = ""
    system: str = ""
    environment: str = ""
    mode: str = ""
    flush: str = ""
    replication: str = ""
    commit: str = ""  # of the code that ran it; empty outside a checkout
    staticfire: str = ""  # version of the package that ran it
    valid: Validity = "unknown"
    anomalies: tuple[str, ...] = ()  # with violations, sorted
    cause: str = ""  # of an invalid run, as in results/fingerprint.py
    faults: tuple[str, ...] = ()  # kinds that bit, sorted
    acked: int = 0
    verdict_sha256: str = ""  # of the verdict of `staticfire check` as JSON
    summary: tuple[str, ...] = ()  # of a run that is not valid
    failed: bool = False
    reason: str = ""  # why it cannot be judged: one sentence
    cpu_s: float = 0.0  # of judging

    @property
    def columns(self) -> dict[str, object]:
        """Return the row as Parquet holds it."""
        return {**asdict(self), "valid": str(self.valid).lower()}


def row_of(path: Path) -> RunRow:
    """Judge a run as `staticfire check` does. Never raises, so that one bad folder does not end the analysis."""
    started_s = time.process_time()
    try:
        row = _judged(RunFolder(path))
    except HistoryError as error:
        row = failed_row(path, str(error))
    except OSError as error:
        row = failed_row(path, f"{error.filename or path} cannot be read: {error.strerror}")
    except Exception as error:
        row = failed_row(path, raised_text(error))
    return replace(row, cpu_s=round(time.process_time() - started_s, 3))


def failed_row(path: Path, reason: str) -> RunRow:
    """Return the row of a folder that cannot be judged."""
    named = reason if str(path) in reason else f"{path}: {reason}"
    return RunRow(run=str(path), made=made_at(path), failed=True, reason=named)


def made_at(path: Path) -> str:
    """Return when a run was made: from the name of its folder, or else the time of the newest of these files."""
    if stamp := STAMP.match(path.name):
        return stamp[0]
    for name in (VERDICT_FILE, "."):
        if (path / name).exists():
            return time.strftime("%Y%m%d-%H%M%S", time.localtime((path / name).stat().st_mtime))
    return ""


def sha256_of(verdict: RunVerdict) -> str:
    """Return a digest of the verdict, equal for verdicts that are equal to the bit."""
    return hashlib.sha256(
        orjson.dumps(verdict.to_json(), option=orjson.OPT_NON_STR_KEYS)
    ).hexdigest()


def _judged(folder: RunFolder) -> RunRow:
    """Raises HistoryError, OSError."""
    if folder.path.is_dir() and not is_of_run(folder.path):
        raise HistoryError(
            f"{folder.path} is no folder of a run: it has none of {', '.join(sorted(MARKS))}"
        )
    _refuse_huge(folder)
    campaign = folder.read_campaign()
    verdict = judge(folder, client_only=False)
    recorded = folder.read_verdict().get("versions") if folder.is_finished else None
    versions = recorded if isinstance(recorded, dict) else {}
    cause = full_fingerprint(verdict, folder.read_faults(), campaign.topology())
    return RunRow(
        run=str(folder.path),
        made=made_at(folder.path),
        seed=campaign.seed,
        workload=campaign.workload,
        system=campaign.system,
        environment=campaign.environment,
        mode=campaign.mode,
        flush=campaign.flush,
        replication=campaign.replication,
        commit=str(versions.get("commit", "")),
        staticfire=str(versions.get("staticfire", "")),
        valid=verdict.valid,
        anomalies=tuple(sorted(verdict.violations())),
        cause=str(cause or ""),
        faults=_bitten(campaign, verdict),
        acked=verdict.counts["acked"],
        verdict_sha256=sha256_of(verdict),
        summary=() if verdict.valid is True else tuple(verdict_lines(verdict)),
    )


def _refuse_huge(folder: RunFolder) -> None:
    """Raises HistoryError for a history that needs more memory or time than one of many runs may take; OSError."""
    if folder.history.exists():
        size = folder.history.stat().st_size
        if size > LINES_BYTES_MAX:
            raise HistoryError(
                f"{folder.history} has {size} bytes, and --rows judges at most {LINES_BYTES_MAX}; "
                "`staticfire check` judges it alone"
            )
    elif (folder.columns / MANIFEST).exists():
        rows = read_manifest(folder.columns).rows
        if rows > ROWS_MAX:
            raise HistoryError(
                f"{folder.columns} has {rows} message events, and --rows judges at most {ROWS_MAX}; "
                "`staticfire analyze` without --rows judges it in chunks"
            )


def _bitten(campaign: Campaign, verdict: RunVerdict) -> tuple[str, ...]:
    kinds = {str(planned.fault_id): planned.kind for planned in campaign.plan}
    return tuple(sorted({kinds[name] for name in verdict.faults_bitten if name in kinds}))
