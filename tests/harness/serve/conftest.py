"""A folder with runs, hunts, reports and hostile things in it, and a real server for it."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from staticfire.harness.conformance.clause import contract
from staticfire.harness.conformance.outputs.files import write_outputs
from staticfire.harness.conformance.result import CaseResult, Outcome
from staticfire.harness.conformance.sites.suite import SuiteResult
from tests.harness.cli.conftest import short_run

# Markup, a formula, terminal codes, a mark that turns text round, and what templates would evaluate.
NASTY = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>=cmd()\x1b[31m\u202e{{7*7}}"
NASTY_NAME = "'\"><script>alert(1)<script> {{7*7}}\x1b[31m"  # of a folder: no slash
SECRET = "not to be read by any client"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Server:
    """A server and what it serves."""

    port: int
    folder: Path
    process: subprocess.Popen[str]

    def get(
        self, path: str, method: str = "GET", body: bytes | None = None, **headers: str
    ) -> Answer:
        """Ask for a path as it is written: nothing in it is encoded or tidied up."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host="Host" in headers)
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()


def start(folder: Path, *options: str, **environment: str) -> Server:
    """A server in a process of its own, on a free port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "staticfire", "serve", str(folder), "--port", "0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    assert process.stdout is not None
    process.stdout.readline()
    line = process.stdout.readline()
    assert "serving" in line, process.communicate(timeout=30)
    return Server(int(line.split("/  (")[0].rpartition(":")[2]), folder, process)


def stop(server: Server) -> tuple[int, str]:
    """End a server. Return its status and what it wrote to stderr."""
    server.process.terminate()
    _, errors = server.process.communicate(timeout=60)
    return server.process.returncode, errors


@pytest.fixture(scope="session")
def one_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is not to be changed."""
    return short_run(tmp_path_factory.mktemp("one"))


@pytest.fixture(scope="session")
def runs_folder(one_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as it may lie on a machine: runs, one that goes on, damaged and hostile ones, links that lead out."""
    top = tmp_path_factory.mktemp("served")
    (top / "outside").mkdir()
    (top / "outside" / "secret.txt").write_text(SECRET)
    folder = top / "runs"
    folder.mkdir()
    for name in ("20260101-000000-queue-1", "20260101-000001-queue-1", "lost"):
        shutil.copytree(one_run, folder / name)
    _make_invalid(folder / "lost")
    _make_other(folder / "20260101-000001-queue-1")
    _make_unfinished(folder / "going-on", one_run)
    _make_hostile(folder, one_run)
    _make_damaged(folder, one_run)
    _make_hunt(folder / "hunt.jsonl")
    _make_report(folder / "report")
    links = {"link-to-file": "secret.txt", "link-to-folder": ""}
    for name, target in links.items():
        (folder / name).symlink_to(top / "outside" / target)
    (folder / "lost" / "link.json").symlink_to(top / "outside" / "secret.txt")
    (folder / "lost" / "inside.json").symlink_to("verdict.json")
    os.mkfifo(folder / "lost" / "pipe.json")
    return folder


@pytest.fixture(scope="session")
def server(runs_folder: Path) -> Iterator[Server]:
    """Serves the folder; whatever the tests did to it, it neither ended nor printed a traceback."""
    running = start(runs_folder)
    yield running
    assert running.process.poll() is None
    assert running.get("/").status == 200
    status, errors = stop(running)
    assert status == 0
    assert errors == ""


def edit(path: Path, change: Any) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def _make_invalid(run: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        verdict = document["verdict"]
        verdict["valid"] = False
        loss = next(one for one in verdict["verdicts"] if one["checker"] == "loss")
        loss["valid"], loss["counts"]["lost"] = False, 3
        finding = {"anomaly": "lost", "judgement": "violation", "op_index": 5, "time_ns": 10**9}
        loss["findings"] = [{**finding, "detail": "delivered to no consumer", "key": "p1-7"}] * 30
        document["versions"] = {"staticfire": "0.0.9", "commit": "abc"}

    edit(run / "verdict.json", change)
    (run / "report.html").write_text("<h1>the report</h1><script>document.title='ran'</script>")


def _make_other(run: Path) -> None:
    """A run that differs from its neighbour in a setting and from an op on."""
    path = run / "campaign.toml"
    path.write_text(path.read_text().replace("queues = ", "queues = 1"))
    lines = (run / "history.jsonl").read_bytes().splitlines(keepends=True)
    lines[40] = lines[40].replace(b'"time_ns":', b'"time_ns":1')
    (run / "history.jsonl").write_bytes(b"".join(lines))


def _make_unfinished(run: Path, source: Path) -> None:
    run.mkdir()
    shutil.copy(source / "campaign.toml", run)
    (run / "history.jsonl").write_bytes((source / "history.jsonl").read_bytes()[:60_000])


def _make_hostile(folder: Path, source: Path) -> None:
    """A run with hostile text in every place, in a folder with such a name."""
    run = Path(shutil.copytree(source, folder / NASTY_NAME))
    inside = json.dumps(NASTY)[1:-1]
    for name in ("StaticfireTopic", "staticfire-group", "broker-a", '"queue"', "p1-"):
        for path in (run / "verdict.json", run / "history.jsonl", run / "faults.jsonl"):
            by = f'"{inside}"' if name.startswith('"') else inside
            path.write_text(path.read_text().replace(name, by))
    _make_invalid(run)

    def change(document: dict[str, Any]) -> None:
        document["diagnoses"] = [NASTY]
        document["verdict"]["caveats"] = [NASTY]
        document["verdict"]["coverage"] = {NASTY: 3}
        document["verdict"]["not_applicable"] = [NASTY]
        document["versions"] = {"staticfire": NASTY, "python": NASTY, "commit": NASTY}
        for one in document["verdict"]["verdicts"]:
            one["checker"], one["reason"] = NASTY, NASTY
            one["counts"] = {NASTY: 1}
            for finding in one["findings"]:
                finding.update(
                    dict.fromkeys(("anomaly", "detail", "key", "topic", "broker"), NASTY)
                )

    edit(run / "verdict.json", change)
    campaign = (run / "campaign.toml").read_text()
    quoted = json.dumps(NASTY)
    for name in ("workload", "environment", "target", "defect", "mode"):
        campaign = "\n".join(
            f"{name} = {quoted}" if line.startswith(f"{name} = ") else line
            for line in campaign.splitlines()
        )
    (run / "campaign.toml").write_text(campaign)
    going_on = folder / f"{NASTY_NAME} goes on"
    _make_unfinished(going_on, run)
    (run / f"{NASTY_NAME}.json").write_text("{}")


def _make_damaged(folder: Path, source: Path) -> None:
    """Documents of every wrong shape."""
    documents = {
        "torn": '{"verdict": {"val',
        "list": "[]",
        "wrong": '{"verdict": {"valid": 3, "verdicts": 5, "counts": [], "coverage": "x"}, "facts": 7}',
        "deep": "[" * 5000,
        "huge-number": '{"verdict": {"valid": true, "counts": {"acked": 1' + "0" * 400 + "}}}",
        "of-another-version": '{"version": 99, "digest": "d", "facts": {}, "verdict": {"valid": true, "verdicts": []}}',
        "odd": json.dumps(
            {
                "version": 2,
                "verdict": {"valid": False, "verdicts": [{"findings": [5, {"time_ns": "x"}]}, 7]},
                "diagnoses": 5,
                "run_s": "long",
            }
        ),
    }
    for name, text in documents.items():
        run = folder / f"damaged-{name}"
        run.mkdir()
        (run / "verdict.json").write_text(text)
        (run / "campaign.toml").write_bytes(
            b"\xff = [" if name == "torn" else b"[campaign]\nseed = 'x'\n"
        )
        (run / "faults.jsonl").write_bytes(
            b'5\n{"kind": 5, "targets": 7, "evidence": {"a": [[]]}}\nx'
        )
        (run / "history.jsonl").write_bytes(
            b'{"time_ns": -1}\n[]\nxx\n{"time_ns": 5, "process": -1}\n'
        )


def _make_hunt(path: Path) -> None:
    rows = [
        {
            "seed": seed,
            "workload": "queue",
            "valid": seed % 5 != 0,
            "digest": "d",
            "coverage": {"rolled a log file": seed, NASTY: 1, f"mark {seed}": 1},
            "fingerprint": "loss (lost)" if seed % 10 == 0 else NASTY,
            "anomalies": ["lost", NASTY],
            "summary": [NASTY, "LOST  key p1-7"],
            "wall_s": 2.0 if seed else 0.5,
        }
        for seed in range(30)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "torn")


def _make_report(folder: Path) -> None:
    clauses = list(contract().values())
    outcomes = [outcome for outcome in Outcome if outcome is not Outcome.ERROR]
    results = tuple(
        CaseResult(clause=clause, outcome=outcome, reason=NASTY, wire_log=(NASTY,))
        for clause, outcome in zip(clauses, outcomes, strict=False)
    )
    suite = SuiteResult(target=NASTY, results=results, floor=1)
    write_outputs(suite, folder, profile="p", command="c")
