"""Valid runs of every workload, made in the simulation and kept in a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.history import HistoryError, encode_op, read_history
from staticfire.checkers.verdicts.compose import ALL_CHECKERS, check_columns
from staticfire.harness.campaign.campaign import AVERAGELY
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.runs.simulated_runner import run_simulated
from tests.checkers.mutations.model import Run

CLEAN = "clean"
FAULTS = "faults"
CLEAN_S, FAULTS_S = 45.0, 60.0  # of load
CLEAN_THINK_MS = 400.0  # fewer messages, so that a verdict takes less time
SEEDS_MAX = 20  # that are tried until one is valid


def campaign_options(workload: str, style: str) -> dict[str, object]:
    """`faults` is the default campaign of a workload; `clean` is the same without any fault."""
    if style == FAULTS:
        return {"workload": workload, "time_s": FAULTS_S}
    usual = {"think_ms": CLEAN_THINK_MS, "strategy": AVERAGELY}  # shares that can be judged
    return {"workload": workload, "time_s": CLEAN_S, "faults": (), **usual}


def make_run(workload: str, style: str, seed: int, folder: Path | None) -> Run | None:
    """The run of one seed, from the folder if it is there. None if it is not valid: nothing can be planted then."""
    kept = folder / f"{workload}-{style}-{seed}" if folder else None
    if kept is not None and (kept / "facts.json").exists():
        return read_run(kept, workload, seed)
    if kept is not None and (kept / "not-valid").exists():
        return None
    result = run_simulated(draw_campaign(seed, campaign_options(workload, style)))
    if result.verdict.valid is not True:
        if kept is not None:
            kept.mkdir(parents=True, exist_ok=True)
            (kept / "not-valid").write_text(str(result.verdict.valid), encoding="utf-8")
        return None
    links = {str(f.fault_id): links_of(f.params) for f in result.campaign.plan}
    run = Run(workload, seed, result.ops, result.observations, result.facts, links)
    if kept is not None:
        write_run(kept, run)
    return run


def links_of(params: Mapping[str, Any]) -> tuple[str, ...]:
    """Nodes whose links a fault of these parameters breaks."""
    return tuple(sorted({node for pair in params.get("drop", ()) for node in pair}))


def valid_runs(workload: str, style: str, seeds: Sequence[int], folder: Path | None) -> list[Run]:
    """A valid run for each seed; for one that is not valid, that of a seed 1000 later."""
    found: list[Run] = []
    for seed in seeds:
        for attempt in range(SEEDS_MAX):
            run = make_run(workload, style, seed + 1000 * attempt, folder)
            if run is not None:
                found.append(run)
                break
    return found


def write_run(folder: Path, run: Run) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "history.jsonl").write_bytes(b"".join(map(encode_op, run.ops)))
    (folder / "observations.jsonl").write_bytes(b"\n".join(map(orjson.dumps, run.observations)))
    (folder / "links.json").write_bytes(orjson.dumps(run.links))
    (folder / "facts.json").write_bytes(orjson.dumps(run.facts.to_json()))


def read_run(folder: Path, workload: str, seed: int) -> Run:
    ops = read_history(folder / "history.jsonl").ops
    lines = (folder / "observations.jsonl").read_bytes().splitlines()
    links = orjson.loads((folder / "links.json").read_bytes())
    facts = RunFacts.from_json(orjson.loads((folder / "facts.json").read_bytes()))
    return Run(workload, seed, ops, [orjson.loads(line) for line in lines], facts, links)


def judged(run: Run, aim: str = "") -> tuple[object, tuple[str, ...], tuple[str, ...]]:
    """Validity, the anomalies that are violations, and the sentences of checkers that failed.

    With an aim the checkers that know that anomaly are asked first, and the others only if they find no violation.
    """
    try:
        columns, timeline = build_columns(run.ops)
    except HistoryError as error:
        return "malformed", (), (f"the history is malformed: {error}",)
    judge = partial(check_columns, columns, timeline, run.observations, run.facts)
    aimed = tuple(checker for checker in ALL_CHECKERS if aim in checker.anomalies)
    verdict = judge(aimed) if aimed else judge()
    if aimed and verdict.valid is not False:
        verdict = judge()
    crashed = tuple(
        f"{answer.checker}: {answer.reason}"
        for answer in verdict.verdicts
        if (answer.reason or "").startswith("the checker failed")
    )
    broken = sorted({f.anomaly for f in verdict.findings() if f.judgement == "violation"})
    failed = [answer.checker for answer in verdict.verdicts if answer.valid is False]
    return verdict.valid, tuple(broken or failed), crashed
