"""Interrupted runs: a prefix of a history without violations has no violation either."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from staticfire.checkers.guarantees.verdict import Validity
from staticfire.checkers.model.history import NEMESIS
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.harness.cli import status_of
from staticfire.harness.cli.check.command import judge
from staticfire.harness.run_folder.run_folder import RunFolder
from tests.support.sample import sample_of

CUTS = 30
RETRY = ["--workload", "retry", "--seed", "266", "--time", "10"]
# The first two were called invalid once, cut while the clock of a producer was wrong, and while a replica was away.
RUNS = [
    pytest.param(RETRY, id="retry"),
    pytest.param(["--workload", "ordered", "--seed", "2"], id="ordered"),
    pytest.param(["--campaign", "default", "--seed", "3"], id="default"),
]
Lines = list[bytes]


def run(options: list[str], runs: Path) -> tuple[Path, Lines, Lines]:
    """The folder of a valid run, its history and its observations."""
    assert status_of(["run", *options, "--runs", str(runs)]) == 0
    [whole] = runs.iterdir()
    history, observations = (
        (whole / name).read_bytes().splitlines(keepends=True)
        for name in ("history.jsonl", "observations.jsonl")
    )
    return whole, history, observations


def judged(whole: Path, history: Lines, observations: Lines, length: int) -> RunVerdict:
    """The verdict over a run that broke off after so many ops."""
    folder = whole.parent.parent / "broken-off"
    folder.mkdir(exist_ok=True)
    end_ns = orjson.loads(history[length])["time_ns"]
    seen = [line for line in observations if orjson.loads(line)["time_ns"] < end_ns]
    (folder / "campaign.toml").write_bytes((whole / "campaign.toml").read_bytes())
    (folder / "history.jsonl").write_bytes(b"".join(history[:length]))
    (folder / "observations.jsonl").write_bytes(b"".join(seen))
    return judge(RunFolder(folder), client_only=False)


def cuts(history: Lines) -> Iterator[int]:
    """How many lines are left: before and after each op of the nemesis, and now and then."""
    yield from range(len(history) // CUTS, len(history), len(history) // CUTS)
    for number, line in enumerate(history):
        if orjson.loads(line)["process"] == NEMESIS:
            yield from (number, number + 1)


@pytest.mark.slow
@pytest.mark.parametrize("options", sample_of(RUNS, 1))
def test_no_beginning_of_a_valid_run_is_invalid(options: list[str], tmp_path: Path) -> None:
    whole, history, observations = run(options, tmp_path / "runs")
    for length in sorted(set(cuts(history))):
        verdict = judged(whole, history, observations, length)
        assert verdict.valid == "unknown", f"with {length} of {len(history)} ops"


@pytest.mark.slow
@pytest.mark.parametrize("has_failed", [False, True])
@pytest.mark.parametrize(("of_target", "valid"), [(True, "unknown"), (False, False)])
def test_a_fault_that_was_on_or_failed_excuses_its_targets_alone(
    of_target: bool, valid: Validity, has_failed: bool, tmp_path: Path
) -> None:
    """A message is planted that was born an hour too early, by its contents, while a clock is wrong."""
    whole, history, observations = run(RETRY, tmp_path / "runs")
    ops = [orjson.loads(line) for line in history]
    [start] = [op for op in ops if op["f"] == "start_clock-skew"]
    [stop] = [op for op in ops if op["f"] == "stop_clock-skew"]
    senders = {op["value"].get("key"): op.get("node") for op in ops if op["f"] == "send"}
    key, number = next(
        (message[0], op["index"])
        for op in ops[start["index"] : stop["index"]]
        if op["f"] == "consume" and op["type"] == "invoke"
        for message in op["value"]["messages"][:1]
        if (senders[message[0]] in start["value"]["targets"]) is of_target
        and op["value"]["topic"] == "StaticfireTopic"
    )
    ops[number]["value"]["messages"][0][5][3] -= 3_600_000
    history[number] = orjson.dumps(ops[number]) + b"\n"
    stop["value"] |= {"phase": "failed", "evidence": {"error": "it cannot be healed"}}
    history[stop["index"]] = orjson.dumps(stop) + b"\n"

    verdict = judged(whole, history, observations, stop["index"] + has_failed)

    assert verdict.valid == valid
    assert any("it cannot be healed" in reason for reason in verdict.below_floors) is has_failed
    wrong = [one.key for one in verdict.findings() if one.anomaly == "wrong_born_time"]
    assert (key in wrong) is not of_target
