"""What leaders had confirmed in runs of earlier versions, whose facts lack it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.recording.nemesis import FaultRecord
from staticfire.harness.rocketmq.facts import run_facts
from staticfire.harness.run_folder.doubts import with_confirmed_queues
from staticfire.harness.run_folder.run_folder import RunFolder

PLANNED = PlannedFault(
    fault_id=0,
    kind="topic-change",
    at_s=1.0,
    duration_s=1.0,
    targets=(),
    params={"topic": "StaticfireTopic", "queues": 6},
)
CAMPAIGN = draw_campaign(1, {"followers": (1, 1), "plan": (PLANNED,)})
ONE = {"topic": "StaticfireTopic", "queues": 6, "stream": "broker-b", "answered_ns": 6}


@pytest.mark.parametrize(
    ("is_older", "evidence", "streams"),
    [
        (True, {"masters_changed": 2}, ["broker-a", "broker-b"]),
        (True, {"masters_changed": 1}, []),
        (False, {"masters_changed": 1, "confirmed": [ONE]}, ["broker-b"]),
    ],
)
def test_facts_of_an_earlier_version_get_what_faults_jsonl_says(
    is_older: bool, evidence: dict[str, Any], streams: list[str], tmp_path: Path
) -> None:
    done: dict[str, Any] = {"fired_ns": 5, "struck_ns": 6, "healed_ns": 9, "bitten": True}
    record = FaultRecord(planned=PLANNED, evidence=evidence, **done)
    facts = orjson.loads(orjson.dumps(run_facts(CAMPAIGN, [record], []).to_json()))
    if is_older:
        del facts["faults"][0]["confirmed"]
    folder = RunFolder.create(tmp_path, CAMPAIGN, "now")
    (folder.path / "faults.jsonl").write_bytes(orjson.dumps(record.to_json()))
    document = {"version": 3, "digest": "", "facts": facts, "verdict": {}}
    (folder.path / "verdict.json").write_bytes(orjson.dumps(document))

    found = with_confirmed_queues(folder, CAMPAIGN, [], RunFacts.from_json(facts))

    [fault] = found.faults
    assert [one.stream for one in fault.confirmed] == streams
    assert {one.queues for one in fault.confirmed} <= {6}
