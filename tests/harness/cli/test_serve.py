"""`serve` refuses in one sentence what it cannot serve."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.harness.cli.conftest import Staticfire


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_another_address_needs_a_token(host: str, staticfire: Staticfire, tmp_path: Path) -> None:
    said = staticfire("serve", tmp_path, "--host", host)
    assert said.status == 254
    assert "which other machines reach; give a --token" in said.err


def test_a_short_token_is_refused(staticfire: Staticfire, tmp_path: Path) -> None:
    said = staticfire("serve", tmp_path, "--token", "short")
    assert said.status == 254
    assert "--token has 5 characters; allowed: 16 or more" in said.err
    assert "short" not in said.err.replace("staticfire", "")


@pytest.mark.real
def test_a_port_in_use_is_one_sentence(staticfire: Staticfire, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = staticfire("serve", tmp_path, "--port", port)
    assert said.status == 254
    assert said.err == (
        f"staticfire: --port is {port}; it is in use at 127.0.0.1; allowed: a free port, or 0 to have one chosen\n"
    )


def test_a_folder_that_is_not_there_is_refused(staticfire: Staticfire, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("none", "file"):
        said = staticfire("serve", tmp_path / name)
        assert said.status == 254
        assert "it cannot be read as a folder" in said.err


def test_a_host_that_is_none_is_refused(staticfire: Staticfire, tmp_path: Path) -> None:
    said = staticfire("serve", tmp_path, "--host", "127.0.0.256", "--token", "x" * 20)
    assert said.status == 254
    assert "this machine cannot listen there" in said.err


def test_without_its_library_it_is_one_sentence(
    staticfire: Staticfire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("staticfire.harness.cli.extras.find_spec", lambda name: None)
    said = staticfire("serve", tmp_path)
    assert said.status == 254
    assert "pip install 'staticfire[serve]' adds it" in said.err
