"""Progress of long commands: one changing line on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import io
import os
import re
import sys
import threading
from pathlib import Path

import pytest

from staticfire.harness.cli import progress as module
from staticfire.harness.cli.progress import (
    CLEAR_LINE,
    LOG_EVERY_S,
    Progress,
    counted,
    show_progress,
    working,
)
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.results.run_status import RunStatus
from tests.harness.cli.conftest import Staticfire


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """A clock that tests move."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def status(at_s: float, phase: str = "load") -> RunStatus:
    return RunStatus(
        phase=phase,
        at_s=at_s,
        acknowledged=2_091,
        consumed=2_000,
        faults=("kill", "client-crash", "client-crash"),
        nodes={"broker-a": "down", "broker-b": "up"},
    )


def test_a_log_gets_a_line_every_thirty_seconds_and_short_work_none() -> None:
    log, clock = io.StringIO(), Clock()
    progress = Progress(log, "hunt", total=4000, unit="seeds", clock=clock)
    for passed_s in range(int(2 * LOG_EVERY_S) + 5):
        clock.now_s = 100.0 + passed_s
        progress.update(passed_s * 30, details="24 a minute")

    assert log.getvalue() == (
        "hunt       30 s  900 of 4,000 seeds  24 a minute\n"
        "hunt       60 s  1,800 of 4,000 seeds  24 a minute\n"
    )


def test_a_terminal_has_one_line_that_is_cleared() -> None:
    terminal, clock = Terminal(), Clock()
    progress = Progress(terminal, "judging", total=10, unit="rows", clock=clock)
    progress.update(1)
    assert terminal.getvalue() == "", "short work shows nothing"
    clock.now_s += 3
    progress.update(5)
    progress.update(6)  # at once: not drawn again
    clock.now_s += 1
    with progress.aside():
        terminal.write("a line of the work\n")
    progress.update(10)
    progress.pause()

    assert terminal.getvalue() == (
        f"{CLEAR_LINE}judging    [##########..........]  3 s  5 of 10 rows"
        f"{CLEAR_LINE}a line of the work\n"
        f"{CLEAR_LINE}judging    [####################]  4 s  10 of 10 rows{CLEAR_LINE}"
    )


def test_a_line_fits_the_terminal_and_has_no_control_characters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_columns", lambda: 40)
    terminal, clock = Terminal(), Clock()
    progress = Progress(terminal, "run", clock=clock)
    clock.now_s += 3
    progress.update(details="\x1b[2J" + "x" * 100)
    line = terminal.getvalue().removeprefix(CLEAR_LINE)
    assert len(line) == 39
    assert line.startswith("run        3 s  \\x1b[2Jxxx")


def test_a_dumb_terminal_is_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    terminal, clock = Terminal(), Clock()
    progress = Progress(terminal, "hunt", clock=clock)
    clock.now_s += LOG_EVERY_S
    progress.update(3)
    assert terminal.getvalue() == "hunt       30 s  3\n"


def test_work_without_a_terminal_or_with_a_closed_one_goes_on() -> None:
    clock = Clock()
    closed = Terminal()
    closed_file = Progress(closed, "hunt", clock=clock)
    closed.close()
    clock.now_s += 3
    closed_file.update(1)
    Progress(None, "hunt", clock=clock).update(1)


def test_a_run_reports_its_phase_its_counts_and_its_faults(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "SHOWN_AFTER_S", 0.0)
    monkeypatch.setattr(module, "LOG_EVERY_S", 0.0)
    monkeypatch.setattr(Progress, "begin", lambda _self: None)
    campaign = draw_campaign(1, {"environment": "processes", "time_s": 850.0})
    with show_progress(campaign) as report:
        report(status(30.0))
    assert (
        "of 850 s  2091 acknowledged; 2000 consumed; faults kill, 2 client-crash; broker-a down"
        in (capsys.readouterr().err)
    )


def test_work_that_reports_nothing_is_shown_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHOWN_AFTER_S", 0.0)
    monkeypatch.setattr(module, "LOG_EVERY_S", 0.001)
    written = threading.Event()

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            written.set()
            return super().write(text)

    monkeypatch.setattr(sys, "stderr", stream := Stream())
    with working("reading"):
        assert written.wait(60)
    assert stream.getvalue().startswith("reading    0 s\n")
    assert all(thread.name != "progress" for thread in threading.enumerate())


def test_no_thread_is_there_when_a_process_forks() -> None:
    with working("reading") as progress:
        names = [thread.name for thread in threading.enumerate()]
        assert "progress" in names
        child = os.fork()
        if not child:
            progress.update(1)  # a copy of the parent's work shows nothing
            os._exit(threading.active_count() != 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert all(thread.name != "progress" for thread in threading.enumerate())
        progress.update(1)
        assert "progress" in [thread.name for thread in threading.enumerate()]


def test_work_within_work_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(
        threading.Thread, "start", lambda _self: begun.append(module._shown[-1]._what)
    )
    monkeypatch.setattr(threading.Thread, "join", lambda _self: None)
    with working("outer") as outer:
        with working("inner"):
            outer.update(1)
        outer.update(2)
    assert begun == ["outer", "inner", "outer"]


def test_items_are_counted() -> None:
    clock = Clock()
    progress = Progress(None, "reading", clock=clock)
    assert list(counted(range(3), progress)) == [0, 1, 2]


# --- commands -------------------------------------------------------------------------------------


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each report is a line, and so is the begin of each piece of work."""
    monkeypatch.setattr(module, "SHOWN_AFTER_S", 0.0)
    monkeypatch.setattr(module, "LOG_EVERY_S", 0.0)
    monkeypatch.setattr(Progress, "begin", Progress.show)


SHOWN = re.compile(r"^(\S+(?: \S+)*) +\d+ s(?=  |$)", re.MULTILINE)


def words(text: str) -> list[str]:
    """The pieces of work that were shown, in order."""
    return list(dict.fromkeys(SHOWN.findall(text)))


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("check {run}", ["judging"]),
        ("check {run} --json", ["judging"]),
        ("report {run} --out {out}/report.html", ["reading", "drawing"]),
        pytest.param(
            "replay {run}", ["set up", "load", "drain", "judging"], marks=pytest.mark.slow
        ),
        ("look {run} --at 1s --node broker-a-0", ["repeating"]),
        ("history convert {run} {out}/history.edn", ["converting", "writing"]),
        ("history filter {run} {out}/part.jsonl --f send", ["filtering", "writing"]),
        ("history merge {run} --out {out}/merged", ["copying"]),
        ("history named {run} {out}/named.parquet", ["writing"]),
        ("history stats {run}", ["counting"]),
        ("export {run} --shiviz {out}/shiviz.log", ["exporting"]),
        pytest.param(
            "analyze {run} --out {out}/analysis",
            ["reading", "first pass", "latency", "writing"],
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "synthesize {out}/synthetic --ops 2000 --plant 0", ["making"], marks=pytest.mark.slow
        ),
        ("crash-store --cycles 2", ["crashing"]),
        pytest.param("conform --select RMQ-SND-01", ["conform"], marks=pytest.mark.slow),
        pytest.param(
            "hunt --seeds 3 --jobs 1 --time 5 --faults none", ["hunt"], marks=pytest.mark.slow
        ),
    ],
)
def test_a_command_shows_how_far_it_is(
    arguments: str,
    shown: list[str],
    staticfire: Staticfire,
    kept_run: Path,
    tmp_path: Path,
) -> None:
    said = staticfire(*arguments.format(run=kept_run, out=tmp_path).split())
    assert [one for one in words(said.err) if one in shown] == shown
    assert not words(said.out)
