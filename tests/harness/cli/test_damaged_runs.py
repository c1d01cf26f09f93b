"""The folder of a run whose files were cut, changed, or exchanged with those of another run: never valid."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import orjson
import pytest

from tests.harness.cli.conftest import Said, Staticfire, short_run, without_checksums

FILES = (
    "campaign.toml",
    "faults.jsonl",
    "history.jsonl",
    "observations.jsonl",
    "verdict.json",
    "history.parquet/manifest.json",
    "history.parquet/events.jsonl",
    "history.parquet/ops/part-0.parquet",
    "history.parquet/message_events/queue-0/part-0.parquet",
)
# Of the file: where it is hit.
SHARES = (0.0, 0.7, 1.0, *(pytest.param(share, marks=pytest.mark.slow) for share in (0.3, 0.97)))


@pytest.fixture(scope="session")
def other_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the same campaign with another seed; not to be changed."""
    return short_run(tmp_path_factory.mktemp("other"), seed=2)


def is_refused(said: Said, name: str) -> bool:
    """Whether the command said in one sentence which file is wrong."""
    one_sentence = said.err.startswith("staticfire: ") and said.err.count("\n") == 1
    return said.status == 254 and one_sentence and name in said.err


def position(data: bytes | bytearray, share: float) -> int:
    return min(int(len(data) * share), len(data) - 1)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_cut_is_named(
    name: str, share: float, run_folder: Path, staticfire: Staticfire
) -> None:
    path = run_folder / name
    data = path.read_bytes()
    path.write_bytes(data[: position(data, share)])
    assert is_refused(staticfire("check", run_folder), Path(name).name)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", FILES)
def test_a_file_in_which_a_byte_changed_is_named(
    name: str, share: float, run_folder: Path, staticfire: Staticfire
) -> None:
    path = run_folder / name
    data = bytearray(path.read_bytes())
    data[position(data, share)] ^= 0x01
    path.write_bytes(data)
    assert is_refused(staticfire("check", run_folder), Path(name).name)


@pytest.mark.parametrize("lines", [1, 2, 20])
@pytest.mark.parametrize("name", ["faults.jsonl", "history.jsonl", "observations.jsonl"])
def test_a_file_that_lacks_its_last_lines_is_named(
    name: str, lines: int, run_folder: Path, staticfire: Staticfire
) -> None:
    path = run_folder / name
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-lines]))
    assert is_refused(staticfire("check", run_folder), name)


@pytest.mark.parametrize("command", ["explain", "report"])
def test_an_edited_history_is_named(command: str, run_folder: Path, staticfire: Staticfire) -> None:
    path = run_folder / "history.jsonl"
    path.write_bytes(path.read_bytes().replace(b"SEND_OK", b"SEND_KO", 1))
    assert is_refused(staticfire(command, run_folder), "history.jsonl")


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_run_is_named(
    name: str, run_folder: Path, other_run: Path, staticfire: Staticfire
) -> None:
    shutil.copy(other_run / name, run_folder / name)
    said = staticfire("check", run_folder)
    # The checksums of another run fit none of the files here; the first of them is named.
    assert is_refused(said, "campaign.toml" if name == "verdict.json" else Path(name).name)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_analyze_refuses_a_file_of_another_run(
    name: str, run_folder: Path, other_run: Path, staticfire: Staticfire
) -> None:
    shutil.copy(other_run / name, run_folder / name)
    said = staticfire("analyze", run_folder, "--out", run_folder.parent / "analysis")
    assert said.status == 254, said


def test_history_convert_refuses_the_history_of_another_run(
    run_folder: Path, other_run: Path, staticfire: Staticfire
) -> None:
    target = run_folder.parent / "h.edn"
    assert staticfire("history", "convert", run_folder, target).status == 0
    target.unlink()
    shutil.copy(other_run / "history.jsonl", run_folder / "history.jsonl")
    assert is_refused(staticfire("history", "convert", run_folder, target), "history.jsonl")


def test_the_columns_of_another_run_are_refused(
    run_folder: Path, other_run: Path, staticfire: Staticfire
) -> None:
    (run_folder / "history.jsonl").unlink()
    shutil.rmtree(run_folder / "history.parquet")
    shutil.copytree(other_run / "history.parquet", run_folder / "history.parquet")
    assert is_refused(staticfire("check", run_folder), "manifest.json")


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_without_checksums_a_cut_file_is_valid_only_with_a_note(
    name: str, run_folder: Path, staticfire: Staticfire
) -> None:
    path = without_checksums(run_folder) / name
    data = path.read_bytes()
    path.write_bytes(data[:-5])
    said = staticfire("check", run_folder)
    assert said.status != 0 or "no checksums" in said.out


def test_a_run_without_checksums_is_judged_with_a_note(
    run_folder: Path, staticfire: Staticfire
) -> None:
    before = staticfire("check", run_folder)
    after = staticfire("check", without_checksums(run_folder))
    assert "no checksums" not in before.out
    note = "no checksums: history, observations and facts may not belong together"
    assert f"note      {note}" in after.out
    assert f"  note: {note}" in staticfire("check", run_folder, "--verbose").out
    assert after.status == before.status == 0


@pytest.mark.parametrize("command", ["explain", "shrink"])
def test_a_run_that_did_not_finish_is_refused(
    command: str, run_folder: Path, staticfire: Staticfire
) -> None:
    (run_folder / "verdict.json").unlink()
    said = staticfire(command, run_folder)
    assert said.status == 254
    assert "the run did not finish" in said.err


@pytest.mark.slow
def test_a_run_that_lost_its_verdict_is_not_valid(run_folder: Path, staticfire: Staticfire) -> None:
    (run_folder / "verdict.json").unlink()
    for command in (("check", run_folder), ("analyze", run_folder, "--out", run_folder / "of")):
        said = staticfire(*command)
        assert said.status == 2
        assert "the run did not finish" in said.out


def test_the_verdict_that_was_kept_is_the_verdict_of_check(
    run_folder: Path, staticfire: Staticfire
) -> None:
    kept = orjson.loads((run_folder / "verdict.json").read_bytes())["verdict"]
    assert (kept["valid"], kept["caveats"]) == (True, [])
    assert "note:" not in staticfire("check", run_folder).out


@pytest.mark.parametrize("seed", range(10))
def test_many_bytes_at_random_are_noticed(
    seed: int, run_folder: Path, staticfire: Staticfire
) -> None:
    draw = random.Random(seed)
    name = draw.choice(FILES)
    path = run_folder / name
    data = bytearray(path.read_bytes())
    for _ in range(draw.randint(1, 5)):
        data[draw.randrange(len(data))] ^= draw.randint(1, 255)
    path.write_bytes(data)
    assert is_refused(staticfire("check", run_folder), Path(name).name)


@pytest.mark.parametrize("value", [1.5, 10**30, None, "x", [1], {"a": "b"}, [{}]])
@pytest.mark.parametrize("place", [("counts",), ("verdicts",), ("verdicts", 0, "counts")])
def test_a_verdict_of_wrong_types_is_refused(
    place: tuple[str | int, ...], value: object, staticfire: Staticfire, run_folder: Path
) -> None:
    without_checksums(run_folder)
    document = orjson.loads((run_folder / "verdict.json").read_bytes())
    within = document["verdict"]
    for part in place[:-1]:
        within = within[part]
    within[place[-1]] = value
    (run_folder / "verdict.json").write_text(json.dumps(document))
    for command in ("report", "explain"):
        assert is_refused(staticfire(command, run_folder), "verdict.json")


@pytest.mark.parametrize(
    "incident", [7, {}, {"node": "a", "at_ns": "x", "what": "y", "dropped": []}]
)
def test_an_incident_of_wrong_types_is_no_fault(
    incident: object, staticfire: Staticfire, run_folder: Path
) -> None:
    without_checksums(run_folder)
    path = run_folder / "faults.jsonl"
    fault = {**orjson.loads(path.read_bytes().splitlines()[0]), "incidents": [incident]}
    path.write_bytes(orjson.dumps(fault) + b"\n")
    said = staticfire("report", run_folder)
    assert said.status == 254
    assert said.err.endswith("faults.jsonl: line 1 is no fault\n")


@pytest.mark.parametrize("queue", [[], {}])
def test_an_op_that_names_no_place_is_no_history(
    queue: object, staticfire: Staticfire, run_folder: Path, tmp_path: Path
) -> None:
    path = run_folder / "history.jsonl"
    lines = path.read_bytes().splitlines()
    number = next(at for at, line in enumerate(lines) if b'"queue":' in line and b'"send"' in line)
    op = orjson.loads(lines[number])
    op["value"]["queue"] = queue
    lines[number] = orjson.dumps(op)
    path.write_bytes(b"\n".join(lines) + b"\n")
    shutil.rmtree(run_folder / "history.parquet")
    said = staticfire("history", "convert", run_folder, tmp_path / "x.edn")
    assert said.status == 254
    assert "error of Staticfire" not in said.err
    assert said.err.count("\n") == 1
