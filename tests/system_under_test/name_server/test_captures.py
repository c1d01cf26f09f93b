"""Replays requests of Java and C++ clients: our name server answers like RocketMQ 4.9.8, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand, decode_command
from tests.system_under_test.name_server.hand_driven import Node, connection

CAPTURES = Path(__file__).parents[2] / "data" / "captures"
NAMES = sorted(path.name for path in CAPTURES.glob("*.jsonl"))
QUESTIONS_RECORDED = 56
# The cluster of the captures: a master and its slave.
BROKERS = {0: "127.0.0.1:20911", 1: "127.0.0.1:21911"}

Exchange = tuple[dict[str, Any], dict[str, Any]]


def exchanges(name: str) -> list[Exchange]:
    """Questions to the name server and their answers, in order of the answers."""
    asked: dict[tuple[int, int], dict[str, Any]] = {}
    found = []
    for text in (CAPTURES / name).read_text().splitlines():
        line = json.loads(text)
        if line.get("to") != "ns" or "head" not in line:
            continue
        key = (line["conn"], line["head"]["opaque"])
        if line["dir"] == "C>S":
            asked[key] = line
        else:
            found.append((asked.pop(key), line))
    assert not asked
    return found


class CapturedCluster(Node):
    """A name server, and brokers that register what an answer says."""

    version = 0

    def register_as_recorded(self, topic: str, answer: str) -> None:
        (queues,) = json_dialect.loads(answer)["queueDatas"]
        config = {"topicName": topic, **queues}
        self.version += 1
        version = {"timestamp": 1, "counter": self.version}
        wrapper = {"topicConfigTable": {topic: config}, "dataVersion": version}
        body = json_dialect.dumps({"topicConfigSerializeWrapper": wrapper})
        for broker_id, address in BROKERS.items():
            ext = {
                "brokerName": "broker-a",
                "brokerAddr": address,
                "clusterName": "DefaultCluster",
                "haServerAddr": address,
                "brokerId": str(broker_id),
            }
            self.ask(RequestCode.REGISTER_BROKER, ext, body=body, key=broker_id)


def recorded_request(line: dict[str, Any]) -> RemotingCommand:
    raw = line["rawhead"].encode()
    return decode_command(len(raw).to_bytes(4, "big") + raw)


def test_no_question_is_missing() -> None:
    assert sum(len(exchanges(name)) for name in NAMES) == QUESTIONS_RECORDED


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_as_recorded(name: str) -> None:
    cluster = CapturedCluster()
    for question, answer in exchanges(name):
        request = recorded_request(question)
        head = answer["head"]
        if head["code"] == ResponseCode.SUCCESS:
            cluster.register_as_recorded(request.ext_fields["topic"], answer["body"])
        ours = cluster.server.handle(connection(9), request)
        assert ours is not None
        assert (ours.code, ours.opaque, ours.flag) == (head["code"], head["opaque"], head["flag"])
        assert ours.remark == head.get("remark")
        assert ours.ext_fields == head.get("extFields", {})
        assert ours.body.decode() == answer["body"]
