"""Reads the rows of `staticfire hunt --out`: failures by cause, and behaviours reached over time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from staticfire.harness.serve.documents import json_object
from staticfire.harness.serve.folder import Entry, NotServed, ServedFolder
from staticfire.harness.serve.loose import counts, number, rows, text
from staticfire.harness.serve.summaries import INVALID, UNKNOWN, VALID

FILES_MAX = 500  # files that are read
LINE_BYTES_MAX = 4 << 20
ROWS_MAX = 200_000
BYTES_MAX = 256 << 20
SHOWN_MAX = 200  # shown rows without a valid verdict
SUFFIXES = (".jsonl", ".jsonl.part")
_FIELDS = {"seed", "workload", "valid", "digest", "coverage"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Failures with one cause. `seeds` are the smallest seeds of them."""

    cause: str
    runs: int
    seeds: Sequence[int]
    workload: str
    anomalies: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunt:
    """The results of a hunt. `reached`: behaviours reached by any seed, after each row."""

    rows: int
    states: Mapping[str, int]
    clusters: Sequence[Cluster]
    reached: Sequence[int]
    spent_s: Sequence[float]  # CPU time of all runs so far, after each row; 0: not recorded
    latest_new: int  # the row that last reached something new, from 1; 0: none
    behaviours: Sequence[tuple[str, int]]  # (mark, seeds that reached it)
    failures: Sequence[Mapping[str, object]]
    is_cut: bool  # the file has more rows than were read

    @property
    def seconds(self) -> float:
        """The CPU time of all runs together, in seconds."""
        return self.spent_s[-1] if self.spent_s else 0.0

    @property
    def idle_s(self) -> float:
        """The CPU time of the runs since the last new behaviour, in seconds."""
        return self.seconds - (self.spent_s[self.latest_new - 1] if self.latest_new else 0.0)

    def over_time(self, steps: int) -> list[float]:
        """Return the behaviours reached at `steps` + 1 equidistant moments."""
        rows = (bisect_right(self.spent_s, self.seconds * at / steps) for at in range(steps + 1))
        return [float(self.reached[row - 1]) if row else 0.0 for row in rows]


def hunt_files(folder: ServedFolder) -> list[tuple[str, ...]]:
    """Return paths of files with rows of a hunt, in the folder or one below. Raises NotServed."""
    top = folder.entries()
    candidates: list[tuple[tuple[str, ...], Entry]] = [((), entry) for entry in top]
    for entry in top:
        if entry.is_folder and len(candidates) < FILES_MAX:
            candidates += [((entry.name,), one) for one in _inside(folder, entry.name)]
    files = [(*above, one.name) for above, one in candidates if _may_be(one)][:FILES_MAX]
    return [path for path in files if _is_hunt(folder, path)]


def _inside(folder: ServedFolder, name: str) -> list[Entry]:
    try:
        found = folder.entries((name,))
    except NotServed:
        return []
    is_run = any(one.name == "history.jsonl" for one in found)
    return [] if is_run else found


def _may_be(entry: Entry) -> bool:
    return not entry.is_folder and entry.size > 0 and entry.name.endswith(SUFFIXES)


def _is_hunt(folder: ServedFolder, path: Sequence[str]) -> bool:
    try:
        with folder.open(path) as file:
            return json_object(file.readline(LINE_BYTES_MAX)).keys() >= _FIELDS
    except NotServed:
        return False


def read_hunt(folder: ServedFolder, path: Sequence[str]) -> Hunt:
    """Read a hunt. Raises NotServed for a file that holds none."""
    if not _is_hunt(folder, path):
        raise NotServed(f"{path[-1]} holds no rows of a hunt")
    states = dict.fromkeys((VALID, INVALID, UNKNOWN), 0)
    seeds_of: dict[str, int] = {}
    reached: list[int] = []
    spent_s: list[float] = []
    failures: list[Mapping[str, object]] = []
    clusters: dict[str, list[Mapping[str, object]]] = {}
    latest_new = 0
    for row in _rows(folder, path):
        state = _state(row.get("valid"))
        states[state] += 1
        before = len(seeds_of)
        for mark, count in counts(row.get("coverage")).items():
            if count:
                seeds_of[mark] = seeds_of.get(mark, 0) + 1
        reached.append(len(seeds_of))
        took_s = max(0.0, number(row.get("wall_s")) or 0.0)
        spent_s.append(took_s + (spent_s[-1] if spent_s else 0.0))
        if len(seeds_of) > before:
            latest_new = len(reached)
        if state == INVALID:
            clusters.setdefault(text(row.get("fingerprint")) or "unnamed", []).append(row)
        if state != VALID and len(failures) < SHOWN_MAX:
            failures.append(row)
    found = [_cluster(cause, members) for cause, members in clusters.items()]
    return Hunt(
        rows=len(reached),
        states=states,
        clusters=sorted(found, key=lambda one: (-one.runs, one.cause)),
        reached=reached,
        spent_s=spent_s,
        latest_new=latest_new,
        behaviours=sorted(seeds_of.items(), key=lambda item: (item[1], item[0])),
        failures=failures,
        is_cut=len(reached) >= ROWS_MAX or folder.entry(path).size > BYTES_MAX,
    )


def _rows(folder: ServedFolder, path: Sequence[str]) -> Iterator[Mapping[str, object]]:
    size = 0
    with folder.open(path) as file:
        for count, line in enumerate(iter(partial(file.readline, LINE_BYTES_MAX), b"")):
            size += len(line)
            if count >= ROWS_MAX or size > BYTES_MAX:
                return
            row = json_object(line)
            if row.keys() >= _FIELDS:
                yield row


def _cluster(cause: str, members: Sequence[Mapping[str, object]]) -> Cluster:
    seeds = sorted(int(seed) for row in members if (seed := number(row.get("seed"))) is not None)
    names = dict.fromkeys(text(name) for row in members for name in rows(row.get("anomalies")))
    return Cluster(
        cause=cause,
        runs=len(members),
        seeds=seeds[:8],
        workload=text(members[0].get("workload")),
        anomalies=[name for name in names if name],
    )


def _state(valid: object) -> str:
    if valid is True:
        return VALID
    return INVALID if valid is False else UNKNOWN
