"""Recorded Java and C++ sessions with retries and transactions, asked again of a real broker on real sockets.

Only times are shorter than in the recording, and offsets are those of the new log.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from staticfire.harness.local_cluster.ports import free_ports
from staticfire.system_under_test.protocol.command import RemotingCommand, decode_command
from staticfire.system_under_test.protocol.frames import FrameDecoder
from staticfire.system_under_test.protocol.message import (
    decode_properties,
    decode_record,
    decode_records,
)
from tests.support.local_processes import LocalNode
from tests.system_under_test.broker.bench import pull_ext, send_ext

pytestmark = pytest.mark.real

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
PROPERTIES = """
messageDelayLevel=1s 1s 1s 1s
transactionTimeOut=1
transactionCheckInterval=300
"""
TIMEOUT_S = 60.0


def captured(name: str, what: str) -> list[dict[str, Any]]:
    """Commands between client and master of one kind, in order."""
    lines = map(json.loads, (CAPTURES / name).read_text().splitlines())
    return [line for line in lines if line.get("to") == "master" and line.get("name") == what]


def request(line: dict[str, Any], **changed: object) -> RemotingCommand:
    """The recorded request; `changed` replaces fields."""
    head = line["head"]
    ext = {name: str(value) for name, value in head.get("extFields", {}).items()}
    ext |= {name: str(value) for name, value in changed.items()}
    command = RemotingCommand.request(head["code"], ext, line["body"].encode())
    command.version, command.flag = head["version"], head["flag"]
    return command


class Session:
    """One connection to the broker. What comes unasked is kept."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self._decoder = FrameDecoder()
        self._received: list[RemotingCommand] = []
        self._opaque = 0

    def close(self) -> None:
        self._socket.close()

    def tell(self, command: RemotingCommand) -> int:
        self._opaque += 1
        command.opaque = self._opaque
        self._socket.sendall(command.encode())
        return self._opaque

    def ask(self, command: RemotingCommand) -> RemotingCommand:
        opaque = self.tell(command)
        return self.wait_for(lambda found: found.is_response and found.opaque == opaque)

    def wait_for(self, wanted: Callable[[RemotingCommand], bool]) -> RemotingCommand:
        while True:
            for command in self._received:
                if wanted(command):
                    self._received.remove(command)
                    return command
            data = self._socket.recv(1 << 16)
            assert data, "the broker has closed the connection"
            self._received += [decode_command(frame) for frame in self._decoder.feed(data)]


@contextmanager
def broker(folder: Path) -> Iterator[Session]:
    [port] = free_ports(1)
    (folder / "broker.conf").write_text(PROPERTIES)
    arguments = ["broker", "--broker-name", "broker-a", "--port", str(port)]
    arguments += ["--store", str(folder / "store"), "-c", str(folder / "broker.conf")]
    node = LocalNode("broker", folder, arguments)
    node.start()
    session = Session(port)
    try:
        yield session
    finally:
        session.close()
        node.kill()


def send(session: Session, topic: str, properties: dict[str, str]) -> int:
    """Send a message; return its physical offset."""
    ext = send_ext(topic, properties=properties)
    answer = session.ask(RemotingCommand.request(310, ext, b"hello"))
    assert answer.code == 0, answer
    return int(answer.ext_fields["msgId"][16:], 16)


def test_java_consumer_sends_back(tmp_path: Path) -> None:
    name = "java-push-fail-retry.jsonl"
    with broker(tmp_path) as session:
        offset = send(session, "TV", {"TAGS": "TagA", "UNIQ_KEY": "U"})
        beat, recorded = captured(name, "HEART_BEAT")[0], captured(name, "RE:HEART_BEAT")[0]
        assert session.ask(request(beat)).code == recorded["head"]["code"]
        (back,), (answered,) = (
            captured(name, "CONSUMER_SEND_MSG_BACK"),
            captured(name, "RE:CONSUMER_SEND_MSG_BACK"),
        )
        answer = session.ask(request(back, offset=offset))
        assert (answer.code, answer.remark) == (answered["head"]["code"], None)
        pull = next(
            line
            for line in captured(name, "PULL_MESSAGE")
            if line["head"]["extFields"]["topic"].startswith("%RETRY%")
        )
        found = session.ask(request(pull))  # held until the message comes
        (recorded,) = [
            line
            for line in captured(name, "RE:PULL_MESSAGE")
            if line["head"]["opaque"] == pull["head"]["opaque"]
        ]
        assert (found.code, found.remark) == (recorded["head"]["code"], recorded["head"]["remark"])
        assert found.ext_fields == recorded["head"]["extFields"]
        (message,) = decode_records(found.body)
        assert message.reconsume_times == 1
        assert message.properties == {
            "REAL_TOPIC": "%RETRY%CID-java-fail",
            "REAL_QID": "0",
            "ORIGIN_MESSAGE_ID": f"7F000001{message.store_host[1]:08X}{offset:016X}",
            "RETRY_TOPIC": "TV",
            "TAGS": "TagA",
            "UNIQ_KEY": "U",
            "CLUSTER": "DefaultCluster",
            "WAIT": "false",
            "DELAY": "3",
        }
        seen = bytes.fromhex(recorded["body"][4:])
        for property_name in ("REAL_TOPIC", "ORIGIN_MESSAGE_ID"):
            assert property_name.encode() in seen


def test_cpp_consumer_sends_back(tmp_path: Path) -> None:
    text = (CAPTURES / "cpp-sendback-direct.jsonl").read_text().splitlines()[0]
    (frame,) = FrameDecoder().feed(json.loads(text)["data"].encode("latin-1"))
    with broker(tmp_path) as session:
        offset = send(session, "TP", {})
        back = decode_command(frame)
        back.ext_fields["offset"] = str(offset)
        assert session.ask(back).code == 0
        ext = pull_ext("%RETRY%CID-py-fail2", sys_flag=6, group="CID-py-fail2")
        (message,) = decode_records(session.ask(RemotingCommand.request(11, ext)).body)
        assert (message.reconsume_times, message.properties["RETRY_TOPIC"]) == (1, "TP")


def test_java_transactions(tmp_path: Path) -> None:
    name = "java-tx.jsonl"
    sends, answers = captured(name, "SEND_MESSAGE_V2"), captured(name, "RE:SEND_MESSAGE_V2")
    ends, (recorded,) = captured(name, "END_TRANSACTION"), captured(name, "CHECK_TRANSACTION_STATE")
    with broker(tmp_path) as session:
        for beat in captured(name, "HEART_BEAT"):
            assert session.ask(request(beat)).code == 0
        for sent, answered, ended in zip(sends, answers, ends, strict=False):
            answer = session.ask(request(sent))
            expected = answered["head"]
            assert (answer.code, answer.remark) == (expected["code"], expected.get("remark"))
            changing = (
                "msgId",
                "queueOffset",
            )  # the unknown one may be checked, and so stored twice
            for field, value in expected["extFields"].items():
                assert answer.ext_fields[field] == value or field in changing, field
            end = request(
                ended,
                commitLogOffset=int(answer.ext_fields["msgId"][16:], 16),
                tranStateTableOffset=answer.ext_fields["queueOffset"],
            )
            session.tell(end)
        check = session.wait_for(lambda found: found.code == 39)
        assert check.is_oneway
        assert check.ext_fields.keys() == recorded["head"]["extFields"].keys()
        for field in ("msgId", "transactionId"):
            assert check.ext_fields[field] == recorded["head"]["extFields"][field]
        shown = decode_record(check.body, check_crc=True)
        assert (shown.topic, shown.queue_id, shown.body) == ("TV", 1, b"UNKNOW")
        assert shown.physical_offset == int(check.ext_fields["commitLogOffset"])
        sent_properties = decode_properties(sends[2]["head"]["extFields"]["i"])
        assert sent_properties.items() - shown.properties.items() == {("WAIT", "true")}
        changed = {
            key: check.ext_fields[key] for key in ("commitLogOffset", "tranStateTableOffset")
        }
        session.tell(request(ends[3], **changed))
        for queue_id, body in ((3, b"COMMIT_MESSAGE"), (1, b"UNKNOW")):
            pull = pull_ext("TV", queue_id=queue_id, sys_flag=6, group="readers")
            (message,) = decode_records(session.ask(RemotingCommand.request(11, pull)).body)
            assert (message.body, message.sys_flag & 0xC) == (body, 8)
        rolled_back = session.ask(RemotingCommand.request(11, pull_ext("TV", group="readers")))
        assert rolled_back.code == 19
        for left in captured(name, "UNREGISTER_CLIENT"):
            assert session.ask(request(left)).code == 0
