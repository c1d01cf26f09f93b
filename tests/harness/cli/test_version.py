"""The version of Staticfire that a run records."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from staticfire.harness import version
from staticfire.harness.run_folder.run_folder import RunFolder
from staticfire.harness.version import ROOT, commit_of, version_line, versions
from tests.harness.cli.conftest import Said


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(("git", *who, *words), cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init")
    (folder / "file").write_text("1")
    git(folder, "add", "file")
    git(folder, "commit", "-m", "first")
    return folder


def test_the_commit_of_a_checkout(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")  # as in a hook
    clean = commit_of(checkout)
    assert clean is not None
    assert len(clean) == 12
    (checkout / "file").write_text("2")
    commit_of.cache_clear()
    assert commit_of(checkout) == f"{clean}-dirty"


def test_a_tag_does_not_hide_the_commit(checkout: Path) -> None:
    git(checkout, "tag", "-a", "v1", "-m", "v1")
    found = commit_of(checkout)
    assert found is not None
    assert len(found) == 12


def test_no_checkout_and_no_git(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert commit_of(tmp_path) is None
    monkeypatch.setenv("PATH", "")
    assert commit_of(checkout) is None


def test_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "commit_of", lambda _root: "0123456789ab-dirty")
    python = platform.python_version()
    assert version_line().endswith(f" (0123456789ab-dirty), Python {python}")
    monkeypatch.setattr(version, "commit_of", lambda _root: None)
    assert version_line() == f"{versions()['staticfire']}, Python {python}"
    assert "commit" not in versions()


def test_the_option(staticfire: Callable[..., Said]) -> None:
    said = staticfire("--version")
    assert (said.status, said.out, said.err) == (0, f"staticfire {version_line()}\n", "")


def test_a_run_says_which_staticfire_made_it(kept_run: Path) -> None:
    document = orjson.loads((kept_run / "verdict.json").read_bytes())
    assert document["versions"]["python"] == platform.python_version()
    assert ("commit" in document["versions"]) == (ROOT / ".git").exists()
    assert RunFolder(kept_run).verify()
    assert document["versions"]["staticfire"] in RunFolder(kept_run).recorded_by()


@pytest.mark.slow
def test_a_run_that_does_not_say_is_replayed_and_checked(
    run_folder: Path, staticfire: Callable[..., Said]
) -> None:
    path = run_folder / "verdict.json"
    document = orjson.loads(path.read_bytes())
    for name in ("versions", "checksums"):  # as before there were any
        del document[name]
    path.write_bytes(orjson.dumps(document))
    assert RunFolder(run_folder).recorded_by() == ""
    assert "replay identical" in staticfire("replay", run_folder).out
    assert staticfire("check", run_folder).status in (0, 2)
