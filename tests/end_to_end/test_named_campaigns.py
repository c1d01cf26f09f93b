"""Well-known situations on a real cluster: the command ends with the diagnosis, and with the status of the verdict."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 120
# The named campaign in a sixtieth of its time: all that waits for a silent server would wait for longer. It begins when
# every member surely knows its offsets: a new member would have to ask the master that is silent.
FAKE_DEATH = """
[campaign]
time_s = 12.0
name_servers = 2
slaves = [1, 1]
flush = "sync"
replication = "sync"
queues = 4
producers = 4
consumers = 3
think_ms = 100.0
gap_max_s = 3.0
faults = ["name-server-freeze", "pause", "client-crash"]
plan = [
    {id = 0, kind = "name-server-freeze", at_s = 4.0, duration_s = 7.0, targets = ["ns-1"]},
    {id = 1, kind = "pause", at_s = 4.0, duration_s = 7.0, targets = ["broker-a-0"]},
    {id = 2, kind = "client-crash", at_s = 5.0, duration_s = 1.0, targets = ["producer-1"]},
    {id = 3, kind = "client-crash", at_s = 6.0, duration_s = 1.0, targets = ["consumer-1"]},
]
"""
# A small `large-backlog`: no member forwards for a while.
BACKLOG = """
[campaign]
workload = "forwarded"
time_s = 8.0
name_servers = 1
slaves = [0]
flush = "async"
replication = "none"
queues = 4
producers = 2
consumers = 4
forwarding = [2, 2]
think_ms = 50.0
batch_messages = [200, 200]
faults = ["client-crash"]
plan = [
    {id = 0, kind = "client-crash", at_s = 1.0, duration_s = 4.0, targets = ["consumer-1"]},
    {id = 1, kind = "client-crash", at_s = 1.0, duration_s = 4.0, targets = ["consumer-2"]},
]
"""


def run(campaign: str | Path, runs: Path, *options: str) -> tuple[int, str, list[str]]:
    """Exit status, what was printed, and the diagnoses that are kept."""
    command = [
        sys.executable, "-m", "staticfire", "run", "--campaign", str(campaign), "--seed", "1",
        "--environment", "processes", "--runs", str(runs), *options,
    ]  # fmt: skip
    ran = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    [kept] = runs.iterdir()
    document = json.loads((kept / "verdict.json").read_bytes())
    return ran.returncode, ran.stdout + ran.stderr, document["diagnoses"]


def test_two_members_that_ask_for_different_tags(tmp_path: Path) -> None:
    status, said, [diagnosis] = run("mixed-tags", tmp_path / "runs", "--time", "12")
    assert status == 1, said
    assert "diagnosis consumer-1 asks for 'tag1||tag2'" in said
    assert "what the owner does not ask for is passed over for the whole group" in diagnosis
    for tag in ("tag1", "tag2", "tag3"):
        assert f"of 10 {tag} messages" in diagnosis


def test_a_host_that_plays_dead(tmp_path: Path) -> None:
    campaign = tmp_path / "fake-death.toml"
    campaign.write_text(FAKE_DEATH)
    status, said, diagnoses = run(campaign, tmp_path / "runs")
    assert status == 0, said
    assert "diagnosis ns-1 and broker-a-0 played dead" in said
    [diagnosis] = [text for text in diagnoses if "played dead" in text]
    assert "2 clients that started then found their way" in diagnosis


def test_a_backlog_that_is_sent_on_in_batches_and_consumed_out_of_more_queues(
    tmp_path: Path,
) -> None:
    campaign = tmp_path / "backlog.toml"
    campaign.write_text(BACKLOG)
    status, said, diagnoses = run(campaign, tmp_path / "runs")
    assert status == 0, said
    text = " ".join(text for text in diagnoses if "out of 4 queues by" in text)
    assert "These members only forwarded it to StaticfireTopic-forwarded" in text
    assert "consumed there out of 16 queues by 2 members" in text
    [kept] = (tmp_path / "runs").iterdir()
    history = (kept / "history.jsonl").read_text()
    assert '"f":"send_many"' in history
    assert '"f":"consume_many"' in history
    assert '"f":"consume"' not in history
