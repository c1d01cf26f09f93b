"""Runs the commands of one page in a folder of its own, one after the other, as a reader would."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer

from tests.documents.pages import ROOT, Command, fences
from tests.documents.tables import FILES, REPLACED, SERVERS, key_of

TIMEOUT_S = 280
RUN_NAME = re.compile(r"runs/(<the run>|\d{8}-\d{6}-[a-z-]+-\d+)")
# What `cluster up` says on a terminal or not, and `proxy` where there is none.
ADDRESSES = re.compile(r'(?:setNamesrvAddr\(|"name_servers": ?)"([^"]+)"')
SHORT_RUN = (
    "staticfire run --seed 1 --masters 1 --slaves 0 --replication none --time 5 --faults kill"
)
LINKS = (".venv", "Makefile", "pyproject.toml", "constraints.txt", "tests", "README.md", "docker")


@dataclass
class Said:
    """What a command came to: its exit status, and the lines that it wrote to both outputs."""

    status: int
    lines: list[str]


@dataclass
class Shell:
    """The folder of a page, its environment, and the servers that its commands have started."""

    page: str
    folder: Path
    environment: dict[str, str] = field(init=False)
    servers: list[subprocess.Popen[str]] = field(default_factory=list)
    addresses: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "COLUMNS": "120",
        }
        self.environment.pop("PYTEST_ADDOPTS", None)
        shutil.copytree(ROOT / "docs", self.folder / "docs")
        for name in LINKS:
            if (ROOT / name).exists():
                (self.folder / name).symlink_to(ROOT / name)
        for name, source in FILES.get(self.page, {}).items():
            (self.folder / name).write_text(self._text(source), encoding="utf-8")

    def _text(self, source: tuple[str, int] | str) -> str:
        if isinstance(source, str):
            return (ROOT / source).read_text(encoding="utf-8")
        language, number = source
        return [one.text for one in fences(self.page) if one.language == language][number]

    def run(self, command: Command) -> Said:
        """Carry out the command, made smaller as the table says."""
        text = self._prepared(key_of(command.text))
        if text.startswith("export "):
            name, _, value = text.removeprefix("export ").partition("=")
            self.environment[name] = value
            return Said(0, [])
        if text.startswith(tuple(SERVERS)):
            return self._serve(text)
        ran = subprocess.run(
            ["bash", "-c", text],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return Said(ran.returncode, ran.stdout.splitlines())

    def _prepared(self, text: str) -> str:
        for old, new in REPLACED.get(text, ()):
            assert old in text, f"{self.page}: {old!r} is not in {text!r}"
            text = text.replace(old, new, 1) if old else f"{text} {new}"
        for written, actual in self.addresses.items():
            text = text.replace(written, actual)
        if RUN_NAME.search(text):
            text = RUN_NAME.sub(str(self._newest_run().relative_to(self.folder)), text)
        elif re.search(r" runs\b", text):
            self._newest_run()
        return text

    def _newest_run(self) -> Path:
        runs = self.folder / "runs"
        if not runs.exists():
            self.run(Command(self.page, 0, SHORT_RUN))
        kept = [path.parent for path in runs.glob("*/campaign.toml")]
        return max(kept, key=lambda run: run.stat().st_mtime_ns)

    def _serve(self, text: str) -> Said:
        """Start a server on free ports, and take its addresses for those of the page from now on."""
        text = re.sub(r" --port \d+", "", text)
        server = subprocess.Popen(
            ["bash", "-c", f"exec {text} --port 0"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.servers.append(server)
        last = next(last for name, last in SERVERS.items() if text.startswith(name))
        lines, is_ready = _lines_until(server, last)
        if not is_ready:
            return Said(server.wait(), lines)
        addresses = "".join(ADDRESSES.findall("\n".join(lines)))
        first = 19876 if "proxy" in text else 9876
        self.addresses |= {
            f"127.0.0.1:{first + number}": address
            for number, address in enumerate(addresses.split(";"))
        }
        return Said(0, lines)

    def close(self) -> list[int]:
        """Interrupt the servers, the last one first; returns their exit statuses."""
        statuses = []
        for server in reversed(self.servers):
            server.send_signal(signal.SIGINT)
            statuses.append(_ended(server))
        return statuses


def _lines_until(server: subprocess.Popen[str], last: str) -> tuple[list[str], bool]:
    """What a server says up to the line that begins with `last`, and whether that came in time."""
    assert server.stdout is not None
    lines: list[str] = []
    timer = Timer(TIMEOUT_S, server.kill)
    timer.start()
    try:
        for line in server.stdout:
            lines.append(line.rstrip("\n"))
            if line.startswith(last):
                return lines, True
    finally:
        timer.cancel()
    return lines, False


def _ended(server: subprocess.Popen[str]) -> int:
    try:
        server.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        server.kill()
        server.communicate()
    return server.returncode


def clean_of_time(line: str) -> str:
    """A line of output without what differs from run to run: figures, names of folders, widths of columns."""
    line = re.sub(r"\d{8}-\d{6}", "#", line)
    line = re.sub(r"(/tmp/rocketmq-)\w+", r"\1#", line)
    line = re.sub(r"\b([0-9a-f]{16}|[0-9a-f]{64})\b", "#", line)
    line = re.sub(r"\b[0-9A-F]{32}\b", "#", line)
    line = re.sub(r"\d[\d.,]*", "#", line)
    line = re.sub(r"[─━-]{3,}", "---", line)
    return re.sub(r"\s+", " ", line).strip()


def as_said(shown: tuple[str, ...], said: list[str]) -> list[str | None]:
    """For each line that a page shows the line that the command said, in that order; None where it said no such line.

    A line that begins with "..." stands for any lines and stays; one that ends with it stands for a longer one.
    """
    actual = [clean_of_time(line) for line in said]
    position, has_gap, found = 0, False, list[str | None]()
    for line in shown:
        if line.strip().startswith("..."):
            has_gap = True
            found.append(line)
            continue
        wanted = clean_of_time(line)
        rest = range(position, len(actual) if has_gap else min(position + 1, len(actual)))
        at = next((at for at in rest if _is(wanted, actual[at])), None)
        if at is None:
            has_gap = True
            found.append(None)
        else:
            position, has_gap = at + 1, False
            is_cut = line.endswith("...") and not said[at].rstrip().endswith("...")
            found.append(line if is_cut else said[at])
    return found


def missing_lines(shown: tuple[str, ...], said: list[str]) -> list[str]:
    """The lines of a page that the command did not say in that order."""
    return [line for line, found in zip(shown, as_said(shown, said), strict=True) if found is None]


def _is(wanted: str, actual: str) -> bool:
    return actual.startswith(wanted[:-3].rstrip()) if wanted.endswith("...") else actual == wanted
