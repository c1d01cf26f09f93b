"""The folder that is served, the token and the addresses, without a server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from staticfire.harness.serve.folder import NotServed, ServedFolder
from staticfire.harness.serve.security import TokenCheck
from staticfire.harness.serve.server import is_loopback

SECRET = "not to be read by any client"
TOKEN = "a token of the test that is long enough"


def test_a_folder_that_becomes_a_link_is_not_followed(tmp_path: Path) -> None:
    """Names are opened one after the other, so a link that appears in between is refused by the kernel."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text(SECRET)
    runs = tmp_path / "runs"
    (runs / "run").mkdir(parents=True)
    (runs / "run" / "file").write_text("ours")
    folder = ServedFolder(runs)
    assert folder.read(("run", "file"), 100) == b"ours"
    (runs / "run" / "file").unlink()
    (runs / "run").rmdir()
    (runs / "run").symlink_to(tmp_path / "outside")
    for ask in (folder.open, folder.entries):
        with pytest.raises(NotServed):
            ask(("run", "file") if ask is folder.open else ("run",))
    assert folder.entries() == []


def test_reads_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 11)
    os.symlink("file", tmp_path / "link")
    folder = ServedFolder(tmp_path)
    assert folder.read(("file",), 11) == b"x" * 11
    with pytest.raises(NotServed, match="more than 10 bytes"):
        folder.read(("file",), 10)
    assert [one.name for one in folder.entries()] == ["file"]


def test_a_token_is_compared_whole() -> None:
    check = TokenCheck(TOKEN, 1)
    assert check.is_token(TOKEN)
    for wrong in ("", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "\udcff"):
        assert not check.is_token(wrong)
    assert check.cookie != TokenCheck(TOKEN, 1).cookie


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.1", False),
        ("localhost.example", False),
        ("", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
