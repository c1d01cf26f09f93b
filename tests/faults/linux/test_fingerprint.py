"""The loss of a power cut, from the content of files before and after."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from staticfire.faults.linux.on_node.fingerprint import BLOCK, compare, main, take


def test_nothing_changed(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(os.urandom(3 * BLOCK + 7))
    before = take(str(tmp_path))
    assert compare(str(tmp_path), before) == {
        "lost_bytes": 0,
        "files_changed": [],
        "files_gone": [],
    }


def test_blocks_that_differ_and_files_that_are_gone(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    log, gone = tmp_path / "folder" / "log", tmp_path / "gone"
    log.write_bytes(b"a" * (3 * BLOCK + 7))
    gone.write_bytes(b"b" * 10)
    before = take(str(tmp_path))
    log.write_bytes(b"a" * BLOCK + b"c" * BLOCK + b"a" * BLOCK)  # one changed, the torn end cut off
    gone.unlink()
    assert compare(str(tmp_path), before) == {
        "lost_bytes": BLOCK + 7 + 10,
        "files_changed": ["folder/log", "gone"],
        "files_gone": ["gone"],
    }


def test_zeros_where_there_was_data_are_lost_and_zeros_that_go_are_not(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"a" * BLOCK + bytes(2 * BLOCK))
    before = take(str(tmp_path))
    log.write_bytes(bytes(BLOCK))
    assert compare(str(tmp_path), before)["lost_bytes"] == BLOCK


def test_new_files_are_no_loss(tmp_path: Path) -> None:
    before = take(str(tmp_path))
    (tmp_path / "new").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "new")
    assert compare(str(tmp_path), before)["lost_bytes"] == 0


def test_holes_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.truncate(1 << 40)
        file.seek((1 << 39) + 5)
        file.write(b"x")
    (found,) = take(str(tmp_path)).values()
    assert list(found["blocks"]) == [str((1 << 39) // BLOCK)]


def test_as_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "log").write_bytes(b"abc")
    main(["take", str(folder), str(tmp_path / "before")])
    (folder / "log").unlink()
    main(["compare", str(folder), str(tmp_path / "before")])
    assert '"lost_bytes": 3' in capsys.readouterr().out
