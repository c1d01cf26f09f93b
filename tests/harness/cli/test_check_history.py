"""`check` on torn, interrupted and malformed histories: the readable part is judged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from staticfire.checkers.formats.columnar.manifest import read_manifest, write_manifest
from staticfire.harness.recording.history import read_run_history
from tests.harness.cli.conftest import SHORT, Staticfire, refused, without_checksums

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def run_folder(run_folder: Path) -> Path:
    """Without checksums: edits are judged by what they say. `test_damaged_runs.py` has the others."""
    return without_checksums(run_folder)


def history_lines(folder: Path) -> list[bytes]:
    return (folder / "history.jsonl").read_bytes().splitlines(keepends=True)


def write_history(folder: Path, lines: list[bytes]) -> None:
    (folder / "history.jsonl").write_bytes(b"".join(lines))


def change_first(folder: Path, f: str, change: Change) -> None:
    """Change the first completed op of this kind."""
    lines = history_lines(folder)
    for number, line in enumerate(lines):
        op = json.loads(line)
        if (op["f"], op["type"]) == (f, "ok"):
            change(op)
            lines[number] = json.dumps(op).encode() + b"\n"
            write_history(folder, lines)
            return
    raise AssertionError(f"no ok {f}")


def test_a_torn_history_is_judged_up_to_the_tear(run_folder: Path, staticfire: Staticfire) -> None:
    lines = history_lines(run_folder)
    write_history(run_folder, [*lines[:-3], lines[-3][:20]])  # before the drain
    said = staticfire("check", run_folder)
    assert said.status == 2
    assert "torn" in said.out


def test_a_history_that_is_torn_after_the_drain_is_not_valid(
    run_folder: Path, staticfire: Staticfire
) -> None:
    assert staticfire("check", run_folder).status == 0
    write_history(run_folder, [*history_lines(run_folder), b'{"index": 9'])
    said = staticfire("check", run_folder)
    assert said.status == 2
    assert "the history is torn" in said.out


def test_a_history_that_was_cut_by_lines_after_the_drain_is_not_valid(
    run_folder: Path, staticfire: Staticfire
) -> None:
    shutil.rmtree(run_folder / "history.parquet")
    lines = history_lines(run_folder)
    drained = max(at for at, line in enumerate(lines) if json.loads(line)["f"] == "drain")
    for end in range(drained + 1, len(lines)):
        write_history(run_folder, lines[:end])
        said = staticfire("check", run_folder)
        assert (said.status, end) == (2, end)
        assert "not observed" in said.out or "the recorded verdict" in said.out


@pytest.mark.parametrize("field", ["acked", "deliveries"])
def test_a_recorded_verdict_that_counted_other_messages_is_of_another_run(
    field: str, run_folder: Path, staticfire: Staticfire
) -> None:
    path = run_folder / "verdict.json"
    document = json.loads(path.read_bytes())
    document["verdict"]["counts"][field] += 1
    path.write_text(json.dumps(document))
    said = staticfire("check", run_folder)
    assert said.status == 2
    assert "the recorded verdict counts" in said.out


def test_a_whole_history_without_its_verdict_is_not_valid(
    run_folder: Path, staticfire: Staticfire
) -> None:
    (run_folder / "verdict.json").unlink()
    said = staticfire("check", run_folder)
    assert said.status == 2
    assert "the run did not finish" in said.out


def test_a_run_that_broke_off_is_judged_by_its_history(
    run_folder: Path, staticfire: Staticfire
) -> None:
    (run_folder / "verdict.json").unlink()
    lines = history_lines(run_folder)
    write_history(run_folder, [*lines[: len(lines) // 2], b'{"ind'])
    said = staticfire("check", run_folder)
    assert said.status == 2
    assert "never drained" in said.out


def test_damage_is_found_in_a_run_that_broke_off(run_folder: Path, staticfire: Staticfire) -> None:
    def spoil(op: dict[str, Any]) -> None:
        op["value"]["messages"][0][3] = False  # the body was not what the producer sent

    (run_folder / "verdict.json").unlink()
    change_first(run_folder, "consume", spoil)
    said = staticfire("check", run_folder)
    assert said.status == 1
    assert "CORRUPT" in said.out


def test_an_empty_history_proves_nothing(run_folder: Path, staticfire: Staticfire) -> None:
    write_history(run_folder, [])
    said = staticfire("check", run_folder)
    assert said.status == 2
    assert "0 acknowledged sends" in said.out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"garbage\n", ("line 4", "not JSON")),
        (bytes(range(256)) + b"\n", ("not JSON",)),
        (b"[]\n", ("line 4", "JSON object")),
        (b"{}\n", ("line 4", "index")),
    ],
)
def test_a_line_that_is_no_op_is_named(
    line: bytes, words: tuple[str, ...], run_folder: Path, staticfire: Staticfire
) -> None:
    lines = history_lines(run_folder)
    write_history(run_folder, [*lines[:3], line, *lines[4:]])
    assert refused(staticfire("check", run_folder), "history.jsonl", *words)


def test_a_missing_op_is_noticed(run_folder: Path, staticfire: Staticfire) -> None:
    lines = history_lines(run_folder)
    write_history(run_folder, [*lines[:5], *lines[6:]])
    assert refused(staticfire("check", run_folder), "history.jsonl", "line 6")


def test_an_unknown_op_is_named(run_folder: Path, staticfire: Staticfire) -> None:
    change_first(run_folder, "send", lambda op: op.update(f="explode"))
    assert refused(staticfire("check", run_folder), "explode")


FIELDS = {
    "send": ("key", "topic", "queue_offset"),
    "consume": ("messages", "group"),
    "assign": ("queues",),
    "commit": ("offsets",),
    "drain": ("queues", "lag"),
    "probe": ("broker",),
}


@pytest.mark.slow
@pytest.mark.parametrize("value", ["absent", [[]], {"a": 1}])
@pytest.mark.parametrize(
    ("f", "field"), [(f, field) for f, fields in FIELDS.items() for field in fields]
)
def test_a_value_that_breaks_the_conventions_is_refused(
    f: str, field: str, value: object, run_folder: Path, staticfire: Staticfire
) -> None:
    def break_it(op: dict[str, Any]) -> None:
        op["value"][field] = value
        if value == "absent":
            del op["value"][field]

    change_first(run_folder, f, break_it)
    said = staticfire("check", run_folder)
    assert refused(said), said


def test_files_that_are_not_there_are_named(run_folder: Path, staticfire: Staticfire) -> None:
    (run_folder / "observations.jsonl").unlink()
    assert refused(staticfire("check", run_folder), "observations.jsonl")
    (run_folder / "history.jsonl").unlink()
    shutil.rmtree(run_folder / "history.parquet")
    assert refused(staticfire("check", run_folder), "history.jsonl")


def test_columns_give_the_verdict_of_the_lines(run_folder: Path, staticfire: Staticfire) -> None:
    before = staticfire("check", run_folder)
    (run_folder / "history.jsonl").unlink()

    assert staticfire("check", run_folder) == before


def test_columns_of_a_run_that_broke_off_give_the_verdict_of_the_lines(
    run_folder: Path, staticfire: Staticfire
) -> None:
    (run_folder / "verdict.json").unlink()
    before = staticfire("check", run_folder)
    (run_folder / "history.jsonl").unlink()

    assert staticfire("check", run_folder) == before


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["ordered", "transactional", "request-reply"])
def test_columns_of_every_workload_give_the_verdict_of_the_lines(
    workload: str, tmp_path: Path, staticfire: Staticfire
) -> None:
    options = ("--seed", 21, "--workload", workload, "--time", 3, "--faults", "kill")
    staticfire("run", *options, *SHORT[:-2], "--runs", tmp_path)
    [run] = tmp_path.iterdir()
    before = staticfire("check", run)
    (run / "history.jsonl").rename(run / "lines")

    assert before.status in (0, 1, 2)
    assert staticfire("check", run) == before


def test_columns_are_read_only_in_place_of_the_lines_that_they_were_made_of(
    run_folder: Path,
) -> None:
    lines, columns = run_folder / "history.jsonl", run_folder / "history.parquet"
    ours = read_run_history(lines, columns, columns_pay=0)

    (first, *others) = history_lines(run_folder)
    write_history(run_folder, [first.replace(b"warm-up", b"worm-up"), *others])
    edited = read_run_history(lines, columns, columns_pay=0)
    assert len(edited.events) < len(ours.events)  # of lines those of the fault injector are enough


def test_columns_whose_writer_died_are_not_valid(run_folder: Path, staticfire: Staticfire) -> None:
    (run_folder / "history.jsonl").unlink()
    columns = run_folder / "history.parquet"
    write_manifest(columns, replace(read_manifest(columns), complete=False))
    said = staticfire("check", run_folder)
    assert said.status == 2
    assert "the history is torn" in said.out


def damage_part(columns: Path) -> None:
    part = next(iter(sorted((columns / "message_events").rglob("*.parquet"))))
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)


def remove_part(columns: Path) -> None:
    next(iter(sorted((columns / "message_events").rglob("*.parquet")))).unlink()


def claim_more_rows(columns: Path) -> None:
    manifest = read_manifest(columns)
    first, *others = manifest.message_events
    parts = [replace(first, rows=first.rows + 1), *others]
    write_manifest(columns, replace(manifest, message_events=parts))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (damage_part, ("part-0.parquet", "damaged")),
        (remove_part, ("part-0.parquet", "missing")),
        (claim_more_rows, ("part-0.parquet", "rows")),
        (lambda columns: (columns / "manifest.json").unlink(), ("manifest.json",)),
        (lambda columns: (columns / "manifest.json").write_bytes(b"{}"), ("manifest.json",)),
        (lambda columns: (columns / "events.jsonl").write_bytes(b""), ("events.jsonl",)),
    ],
)
def test_damaged_columns_are_refused(
    damage: Callable[[Path], object],
    words: tuple[str, ...],
    run_folder: Path,
    staticfire: Staticfire,
) -> None:
    (run_folder / "history.jsonl").unlink()
    damage(run_folder / "history.parquet")

    assert refused(staticfire("check", run_folder), *words)


def change_op(folder: Path, wanted: Callable[[dict[str, Any]], bool], change: Change) -> None:
    """Change the first op of the history that is wanted."""
    ops = [json.loads(line) for line in history_lines(folder)]
    change(next(op for op in ops if wanted(op)))
    write_history(folder, [json.dumps(op).encode() + b"\n" for op in ops])


def test_a_time_before_the_one_above_is_refused(run_folder: Path, staticfire: Staticfire) -> None:
    change_op(run_folder, lambda op: op["index"] == 7, lambda op: op.update(time_ns=0))
    assert refused(staticfire("check", run_folder), "line 8", "order of time")


@pytest.mark.parametrize(
    ("field", "value"), [("time_ns", 2**63), ("time_ns", -1), ("process", 2**63), ("process", -2)]
)
def test_a_number_out_of_range_is_refused(
    field: str, value: int, run_folder: Path, staticfire: Staticfire
) -> None:
    change_op(run_folder, lambda op: op["f"] == "commit", lambda op: op.update({field: value}))
    assert refused(staticfire("check", run_folder), field, str(value))


@pytest.mark.parametrize(
    "change",
    [{"fault_id": []}, {"evidence": None}, {"evidence": []}, {"evidence": {}}],
)
def test_an_op_of_the_nemesis_that_says_nothing_is_refused(
    change: dict[str, Any], run_folder: Path, staticfire: Staticfire
) -> None:
    (run_folder / "verdict.json").unlink()
    change_op(
        run_folder,
        lambda op: op["process"] == -1 and op["value"].get("phase") == "healed",
        lambda op: op["value"].update(change),
    )
    assert refused(staticfire("check", run_folder), "the outcome of its fault")


@pytest.mark.parametrize(
    ("field", "value"),
    [("durable_on", 3), ("durable_on", [1]), ("cached_on", None), ("key", []), ("time_ns", 1.5)],
)
def test_an_observation_that_makes_no_sense_is_refused(
    field: str, value: object, run_folder: Path, staticfire: Staticfire
) -> None:
    path = run_folder / "observations.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    number = next(n for n, line in enumerate(lines) if b'"kind":"ack_durability"' in line)
    damaged = {**json.loads(lines[number]), field: value}
    lines[number] = json.dumps(damaged).encode() + b"\n"
    path.write_bytes(b"".join(lines))
    assert refused(staticfire("check", run_folder), f"observations.jsonl line {number + 1}", field)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("flush", "maybe"),
        ("groups", {"g": [[]]}),
        ("brokers", {"b": 3}),
        ("gap_max_s", "long"),
        ("faults", [{}]),
        ("floors", {"acked_min": None}),
        ("topics", None),
        ("speed", 1),
    ],
)
def test_facts_that_make_no_sense_are_refused(
    name: str, value: object, run_folder: Path, staticfire: Staticfire
) -> None:
    path = run_folder / "verdict.json"
    document = json.loads(path.read_bytes())
    document["facts"][name] = value
    path.write_text(json.dumps(document))
    assert refused(staticfire("check", run_folder), "the facts in", "are damaged")


def test_a_reset_that_makes_no_sense_is_refused(run_folder: Path, staticfire: Staticfire) -> None:
    path = run_folder / "verdict.json"
    document = json.loads(path.read_bytes())
    document["facts"]["faults"][0]["resets"] = [{"offsets": [["partition", 1, 2]]}]
    path.write_text(json.dumps(document))
    assert refused(staticfire("check", run_folder), "the facts in", "are damaged")


def lose_an_entry(folder: Path) -> None:
    """A violation in hardened mode, and a known behaviour in faithful mode."""
    file = folder / "observations.jsonl"
    seen = [json.loads(line) for line in file.read_bytes().splitlines()]
    last = next(of for of in reversed(seen) if of["kind"] == "queue_entries")
    last.update(missing=1)
    file.write_text("".join(json.dumps(of) + "\n" for of in seen))


def test_a_run_is_judged_again_by_the_promises_of_the_other_mode(
    run_folder: Path, staticfire: Staticfire
) -> None:
    lose_an_entry(run_folder)
    assert staticfire("check", run_folder).status == 1
    assert staticfire("check", run_folder, "--mode", "hardened").status == 1
    said = staticfire("check", run_folder, "--mode", "faithful")
    assert said.status == 0
    assert "verdict   VALID, faithful mode" in said.out
    assert "the run was made in hardened mode, and is judged in faithful mode" in said.out
    assert refused(staticfire("check", run_folder, "--mode", "strict"), "'strict'", "faithful")


@pytest.mark.slow
def test_a_faithful_run_is_judged_again_by_the_hardened_promises(
    tmp_path: Path, staticfire: Staticfire
) -> None:
    options = ("--seed", 1, *SHORT, "--faults", "kill", "--mode", "faithful")
    assert staticfire("run", *options, "--runs", tmp_path).status == 0
    [run] = tmp_path.iterdir()
    lose_an_entry(without_checksums(run))
    assert staticfire("check", run).status == 2  # the recorded verdict counts no such entry
    said = staticfire("check", run, "--mode", "hardened")
    assert said.status == 1
    assert "the run was made in faithful mode, and is judged in hardened mode" in said.out
