"""The rounds of a farm: seeds, canaries, and shrinks of failures."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from staticfire.harness.cli.farm.hands import Ended, Hands, slug
from staticfire.harness.cli.farm.ledger import Ledger, Round, known_behaviours
from staticfire.harness.cli.farm.schedule import Job
from staticfire.harness.cli.hunt.breeding import behaviours_of
from staticfire.harness.cli.hunt.row_files import read_rows
from staticfire.harness.cli.hunt.seeds import SeedResult
from staticfire.harness.cli.status import EXIT_INVALID, BadInput, HarnessError, of_a_file
from staticfire.harness.run_folder.shrunk import SHRUNK_CAMPAIGN
from staticfire.harness.shrink.outputs import write_whole

ANSWERS = {"True": "valid", "False": "invalid", "unknown": "unknown"}
ROWS, REGRESSIONS = "rows", "regressions"
README = """\
# Failures that a farm found

Each is a campaign with every op and fault, as `staticfire shrink` left it;
`staticfire run --campaign NAME.toml` repeats it.
Once its bug is fixed, move it to tests/regressions/ of the checkout with the reverse diff of the fix.

| name | cause | found by | commit |
|---|---|---|---|
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Carries out rounds in the folder of a farm."""

    folder: Path
    hands: Hands
    hunt_options: Sequence[str]  # where seeds run
    shrink_s: float  # wall time that a shrink may take

    def carry_out(self, job: Job, ledger: Ledger, commit: str, now_s: float) -> Round:
        """Carry out a round. Raises HarnessError, and KeyboardInterrupt, after which the round must be repeated."""
        try:
            if job.kind == "hunt":
                return self._hunt(job, ledger, commit, now_s)
            if job.kind == "canary":
                return self._canary(job, commit, now_s)
            return self._shrink(job, commit, now_s)
        except OSError as error:
            raise of_a_file(error, self.folder) from error

    def _hunt(self, job: Job, ledger: Ledger, commit: str, now_s: float) -> Round:
        out = self._rows_of(job, commit)
        seeds = ("--seeds", f"{job.first}-{job.last}", "--workload", job.name)
        ended = self.hands.staticfire("hunt", *seeds, *self.hunt_options, "--out", out, "--resume")
        return _round_of(job, _rows(out), ended, ledger, commit, now_s)

    def _canary(self, job: Job, commit: str, now_s: float) -> Round:
        """Look for a canary. Only a row proves it found: a command that fails to start may have the same status."""
        out = self._rows_of(job, commit)
        for path in _kept(out):  # left by an interrupted round
            path.unlink(missing_ok=True)
        seeds = ("--seeds", f"{job.first}-{job.last}", "--until-found")
        ended = self.hands.staticfire(
            "hunt", "--defect", job.name, *seeds, *self.hunt_options, "--out", out
        )
        is_found = any(result.valid is False for result in _rows(out))
        return _ended(job, ended, commit, now_s, is_found=is_found)

    def _rows_of(self, job: Job, commit: str) -> Path:
        """Return the file of a round's rows."""
        rows = self.folder / ROWS
        rows.mkdir(parents=True, exist_ok=True)
        return rows / f"{commit or 'installed'}-{job.name}-{job.first}.jsonl"

    def _shrink(self, job: Job, commit: str, now_s: float) -> Round:
        name = slug(job.name)
        runs, small = self.folder / "runs" / name, self.folder / "shrunk" / name
        shutil.rmtree(runs, ignore_errors=True)  # left by an interrupted round
        run = self.hands.staticfire(
            *("run", "--workload", job.workload, "--seed", job.first, "--runs", runs)
        )
        folders = sorted(runs.iterdir()) if runs.exists() else []
        if run.status != EXIT_INVALID or not folders:
            return _ended(job, run, commit, now_s, error=run.error or "the seed is valid by now")
        ended = self.hands.staticfire(
            "shrink", folders[-1], "--out", small, "--budget", f"{self.shrink_s:g}"
        )
        both = Ended(ended.status, run.cpu_s + ended.cpu_s, ended.error)
        if not (small / SHRUNK_CAMPAIGN).exists():
            return _ended(job, both, commit, now_s, error=ended.error or "nothing was shrunk")
        _keep_regression(self.folder / REGRESSIONS, small / SHRUNK_CAMPAIGN, job, commit)
        return _ended(job, both, commit, now_s, is_found=True)


def _kept(out: Path) -> tuple[Path, Path]:
    """Return the files that may hold the rows of a hunt: of a finished one, and of an interrupted one."""
    return out, out.with_name(out.name + ".part")


def _rows(out: Path) -> list[SeedResult]:
    """Return the rows of a hunt that has ended, finished or not."""
    for path in _kept(out):
        if path.exists():
            try:
                return read_rows(path)
            except BadInput as error:
                raise HarnessError(str(error)) from error
    return []


def _round_of(
    job: Job,
    results: Sequence[SeedResult],
    ended: Ended,
    ledger: Ledger,
    commit: str,
    now_s: float,
) -> Round:
    known = known_behaviours(ledger.rounds)
    fresh: dict[str, int] = {}
    causes: dict[str, int] = {}
    cause_seeds = Counter[str]()
    answers = Counter[str]()
    for result in results:
        answers["failed" if result.failed else ANSWERS[str(result.valid)]] += 1
        for name, bits in behaviours_of(result.coverage):
            if bits > max(known.get(name, 0), fresh.get(name, 0)):
                fresh[name] = bits
        if result.valid is False:
            cause = result.fingerprint or "unnamed"
            causes[cause] = min(result.seed, causes.get(cause, result.seed))
            cause_seeds[cause] += 1
    wanted = job.last - job.first + 1
    error = "" if len(results) == wanted else ended.error or f"status {ended.status}"
    return replace(
        _ended(job, ended, commit, now_s, error=error),
        cpu_s=round(max(ended.cpu_s, sum(result.cpu_s for result in results)), 3),
        answers=dict(answers),
        behaviours=fresh,
        causes=causes,
        cause_seeds=dict(cause_seeds),
    )


def _ended(
    job: Job,
    ended: Ended,
    commit: str,
    now_s: float,
    *,
    is_found: bool = False,
    error: str | None = None,
) -> Round:
    return Round(
        kind=job.kind,
        name=job.name,
        commit=commit,
        first=job.first,
        last=job.last,
        started_s=int(now_s),
        cpu_s=round(ended.cpu_s, 3),
        error="" if is_found else ended.error if error is None else error,
        is_found=is_found,
    )


def _keep_regression(folder: Path, shrunk: Path, job: Job, commit: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name, readme = slug(job.name), folder / "README.md"
    shutil.copyfile(shrunk, folder / f"{name}.toml")
    text = readme.read_text(encoding="utf-8") if readme.exists() else README
    row = f"| `{name}` | {job.name} | workload {job.workload}, seed {job.first} | {commit} |\n"
    write_whole(readme, text + ("" if row in text else row))
