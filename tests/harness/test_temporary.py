"""Temporary folders: removed at the end, or recorded for `staticfire clean`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from staticfire.faults.linux.inventory import read_journal
from staticfire.harness.cli import status_of
from staticfire.harness.defect_loader import use_defect
from staticfire.harness.local_cluster.store_folder import StoreFolder
from staticfire.harness.state import VARIABLE
from staticfire.harness.temporary import TemporaryFolder
from tests.harness.cli.conftest import Said


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    return tmp_path / "state"


def written_down(state: Path) -> list[str]:
    return [
        resource.name
        for path in sorted(state.glob("*.jsonl"))
        for resource in read_journal(path).left
    ]


def kill_owners(state: Path) -> None:
    """As if the machine had been started anew."""
    for path in state.glob("*.jsonl"):
        header, _, rest = path.read_text().partition("\n")
        path.write_text(json.dumps({**json.loads(header), "boot_id": "another"}) + "\n" + rest)


def test_a_folder_is_written_down_while_it_is_there(state: Path) -> None:
    folder = TemporaryFolder("staticfire-test-")
    assert written_down(state) == []
    assert folder.make() == folder.path
    (folder.path / "file").touch()
    assert written_down(state) == [str(folder.path)]
    folder.remove()
    folder.remove()
    assert not folder.path.exists()
    assert list(state.iterdir()) == []


def test_without_a_state_folder_it_is_made_all_the_same(state: Path) -> None:
    state.write_text("no folder")
    folder = TemporaryFolder("staticfire-test-")
    assert folder.make().is_dir()
    folder.remove()
    assert not folder.path.exists()


def clean(capsys: pytest.CaptureFixture[str]) -> Said:
    capsys.readouterr()
    return Said(status_of(["clean"]), *capsys.readouterr())


def test_clean_removes_what_killed_processes_have_left(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, client = StoreFolder(None), TemporaryFolder("staticfire-cpp-client-")
    cluster.open()
    client.make()
    running = clean(capsys)
    assert (running.status, running.out.count("running")) == (0, 2)
    kill_owners(state)
    cleaned = clean(capsys)
    assert sorted(cleaned.out.splitlines()) == sorted(
        f"removed   folder {folder}" for folder in (cluster.path, client.path)
    )
    assert not cluster.path.exists()
    assert not client.path.exists()
    assert clean(capsys) == Said(0, "nothing to clean\n", "")


def test_a_kept_store_is_not_temporary(state: Path, tmp_path: Path) -> None:
    store = StoreFolder(tmp_path / "store")
    store.open()
    store.close()
    assert store.path.is_dir()
    assert not state.exists()


def test_no_defect_needs_no_folder(state: Path) -> None:
    use_defect("")
    assert not state.exists()
