"""The pages in headless Chromium: what a person sees of filter, compare and live pages, and a silent console."""

from __future__ import annotations

import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.harness.serve.conftest import NASTY_NAME, Server

pytestmark = [pytest.mark.needs_chromium, pytest.mark.real, pytest.mark.slow]

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--enable-logging=stderr",
)


def open_page(server: Server, path: str, folder: Path) -> str:
    """The page after it was opened. Whatever it says on its console (a policy that it breaks, too) fails the test."""
    done = subprocess.run(
        [
            "chromium",
            *FLAGS,
            f"--user-data-dir={folder / 'profile'}",
            "--dump-dom",
            f"http://127.0.0.1:{server.port}{path}",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/?verdict=invalid&q=lost+queue", ["1 of ", "/run/lost"]),
        ("/compare?run=20260101-000000-queue-1&run=20260101-000001-queue-1", ["The first 40 ops"]),
        ("/run/going-on", ["unfinished", "<polyline"]),
        ("/run/lost", ["delivered to no consumer"]),
        ("/hunt/hunt.jsonl", ["loss (lost)", "<polyline"]),
        ("/trends?workload=queue", ["0.0.9 abc", "<rect"]),
        ("/conformance/report", ["does not conform"]),
        (f"/run/{quote(NASTY_NAME)}", ["&lt;script&gt;"]),
    ],
)
def test_a_page_opens(path: str, shown: list[str], server: Server, tmp_path: Path) -> None:
    dom = open_page(server, path, tmp_path)
    assert "<h1>" in dom
    for text in shown:
        assert text in dom
    assert "alert(1)</script>" not in dom


def test_a_report_runs_its_scripts_and_can_ask_for_nothing(server: Server, tmp_path: Path) -> None:
    report = server.folder / "lost" / "report.html"
    before = report.read_text()
    probe = (
        "<p id=said></p><script>fetch('/run/lost').then(() => said.textContent = 'reached')"
        ".catch(() => said.textContent = 'refused'); document.title = 'ran'</script>"
    )
    report.write_text(probe)
    try:
        done = subprocess.run(
            [
                "chromium",
                *FLAGS,
                f"--user-data-dir={tmp_path / 'profile'}",
                "--virtual-time-budget=5000",
                "--dump-dom",
                f"http://127.0.0.1:{server.port}/run/lost/report",
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    finally:
        report.write_text(before)
    assert "<title>ran</title>" in done.stdout
    assert "refused</p>" in done.stdout
