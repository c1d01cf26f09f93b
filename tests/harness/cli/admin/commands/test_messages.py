"""`staticfire admin`: messages on a running cluster."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.harness.cli.admin.shown_messages import message_record
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.message import Message
from tests.harness.cli.admin.commands.test_groups import set_offset
from tests.harness.cli.admin.conftest import CLUSTER, Admin
from tests.support.scripted_consumer import CLIENT_ID, ScriptedConsumer

pytestmark = pytest.mark.real


def send(admin: Admin, topic: str, body: str = "hello") -> Any:
    where = ("-b", "broker-a", "-i", 1)
    return admin.json("sendMessage", "-t", topic, "-p", body, "-k", "k1 k2", "-c", "paid", *where)


def test_a_message_is_sent(admin: Admin, topic: str) -> None:
    sent = send(admin, topic)
    assert sent["status"] == "SEND_OK"
    assert (sent["brokerName"], sent["queueId"], sent["queueOffset"]) == ("broker-a", 1, 0)
    anywhere = admin.json("sendMessage", "-t", topic, "-p", "")
    assert anywhere["status"] == "SEND_OK"


def test_sends_are_measured(admin: Admin, topic: str) -> None:
    rows = admin.json("checkMsgSendRT", "-t", topic, "-a", 8, "-s", 10)
    assert {(row["status"], row["ms"] > 0) for row in rows} == {("SEND_OK", True)}
    assert [row["number"] for row in rows] == list(range(8))
    assert "milliseconds: mean" in admin.text("checkMsgSendRT", "-t", topic, "-a", 1)


def test_a_message_is_found_by_its_place(admin: Admin, topic: str) -> None:
    sent = send(admin, topic)
    place = ("-b", "broker-a", "-i", 1, "-o", 0)
    found = admin.json("queryMsgByOffset", "-t", topic, *place)
    assert found["offsetMsgId"] == sent["offsetMsgId"]
    assert (found["body"], found["tags"], found["keys"]) == ("hello", "paid", "k1 k2")
    err = admin.refusal("queryMsgByOffset", "-t", topic, "-b", "broker-a", "-i", 1, "-o", 7)
    assert "has no message at 7" in err


def test_a_message_is_found_by_its_ids(admin: Admin, topic: str) -> None:
    sent = send(admin, topic)
    found = admin.json("queryMsgById", "-i", sent["offsetMsgId"])
    assert (found["msgId"], found["track"]) == (sent["msgId"], [])
    same = admin.json("queryMsgByUniqueKey", "-t", topic, "-i", sent["msgId"])
    assert same["offsetMsgId"] == sent["offsetMsgId"]
    [same] = admin.json("queryMsgByUniqueKey", "-t", topic, "-i", sent["msgId"], "-a")
    assert same["offsetMsgId"] == sent["offsetMsgId"]
    err = admin.refusal("queryMsgByUniqueKey", "-t", topic, "-i", "nope")
    assert "has a message with the id 'nope'" in err


def test_messages_are_found_by_a_key(admin: Admin, topic: str) -> None:
    sent = [send(admin, topic, body)["msgId"] for body in ("a", "b")]
    found = admin.json("queryMsgByKey", "-t", topic, "-k", "k1")
    assert [each["msgId"] for each in found] == sent
    assert admin.json("queryMsgByKey", "-t", topic, "-k", "k1 k2") == []
    assert admin.json("queryMsgByKey", "-t", topic, "-k", "k1", "-e", 1) == []
    assert len(admin.json("queryMsgByKey", "-t", topic, "-k", "k2", "-m", 1)) == 1


def test_a_topic_is_printed(admin: Admin, topic: str) -> None:
    for body in ("a", "b", "c"):
        send(admin, topic, body)
    bodies = [each["body"] for each in admin.json("printMsg", "-t", topic)]
    assert bodies == ["a", "b", "c"]
    assert "the first 2; there are more" in admin.text("printMsg", "-t", topic, "-m", 2)
    assert "3 messages" in admin.text("printMsg", "-t", topic, "-m", 3)
    assert admin.json("printMsg", "-t", topic, "-s", "other") == []
    assert admin.json("printMsg", "-t", topic, "-e", "2001-01-31") == []
    assert len(admin.json("printMsg", "-t", topic, "-b", "2001-01-31#00:00:00:000")) == 3
    assert len(admin.json("printMsgByQueue", "-t", topic, "-a", "broker-a", "-i", 1)) == 3
    assert admin.json("printMsgByQueue", "-t", topic, "-a", "broker-b", "-i", 1) == []


def test_a_queue_is_printed_as_mqadmin_would(admin: Admin, topic: str) -> None:
    for body in ("a", "b"):
        send(admin, topic, body)
    queue = ("printMsgByQueue", "-t", topic, "-a", "broker-a", "-i", 1)
    assert admin.json(*queue, "-f", "true") == [{"tag": "paid", "count": 2}]
    assert admin.json(*queue, "-p", "false") == []
    without = admin.json(*queue, "-d", "false")
    assert [each["keys"] for each in without] == ["k1 k2", "k1 k2"]
    assert all("body" not in each for each in without)
    assert "body" not in admin.text("printMsg", "-t", topic, "-d", "false")


def test_bodies_in_another_character_set() -> None:
    message = Message(topic="T", body="消息".encode("gbk"), store_host=("127.0.0.1", 1))
    assert message_record(message, "GBK")["body"] == "消息"
    assert "body" not in message_record(message)


def test_messages_are_read_from_an_offset(admin: Admin, topic: str) -> None:
    for body in ("a", "b", "c"):
        send(admin, topic, body)
    queue = ("-t", topic, "-b", "broker-a", "-i", 1)
    found = admin.json("consumeMessage", *queue, "-o", 1, "-c", 1)
    assert [each["body"] for each in found] == ["b"]
    assert len(admin.json("consumeMessage", "-t", topic)) == 3


def test_who_consumed_a_message(admin: Admin, topic: str) -> None:
    sent = send(admin, topic)
    queue = MessageQueue(topic, "broker-a", 1)
    admin.text("updateSubGroup", "-c", CLUSTER, "-g", "gone")
    set_offset(admin, "gone", queue, 0)
    masters = admin.masters
    with (
        ScriptedConsumer(masters, "done", topic),
        ScriptedConsumer(masters, "picky", topic, "other"),
        ScriptedConsumer(masters, "slow", topic),
    ):
        for group, offset in (("done", 1), ("picky", 1), ("slow", 0)):
            set_offset(admin, group, queue, offset)
        rows = admin.json("messageTrack", "-i", sent["offsetMsgId"])
    assert {row["group"]: row["trackType"] for row in rows} == {
        "done": "CONSUMED",
        "picky": "CONSUMED_BUT_FILTERED",
        "slow": "NOT_CONSUME_YET",
        "gone": "NOT_ONLINE",
    }


def test_a_member_consumes_a_message_at_once(admin: Admin, topic: str) -> None:
    sent = send(admin, topic)
    with ScriptedConsumer(admin.masters, "direct", topic):
        member = ("-g", "direct", "-d", CLIENT_ID)
        result = admin.json("queryMsgById", "-i", sent["offsetMsgId"], *member)
        assert result["consumeResult"] == "CR_SUCCESS"
        result = admin.json("queryMsgByUniqueKey", "-t", topic, "-i", sent["msgId"], *member)
        assert result["consumeResult"] == "CR_SUCCESS"


def test_bodies_that_are_no_text_are_base_64() -> None:
    host = ("127.0.0.1", 1)
    record = message_record(Message(topic="T", body=b"\xff", store_host=host))
    assert record["bodyBase64"] == "/w=="
    assert "body" not in record


def test_the_trace_of_a_message_is_shown_in_order(admin: Admin, topic: str) -> None:
    records = (
        "SubAfter|R|ID-1|5|false|k|4|1600000000900|billing",
        "SubBefore|1600000000100|null|billing|R|ID-1|3|k",
        "EndTransaction|1600000000050|DefaultRegion|p|Orders|ID-1|a|k|10.0.0.1:10911|2|ID-1|COMMIT_MESSAGE|true",
        "Pub|1600000000000|DefaultRegion|p|Orders|ID-1|a|k|10.0.0.1:10911|11|5|1|OFFID|true",
        "Pub|1600000000000|DefaultRegion|p|Orders|ID-2|a|k|10.0.0.1:10911|11|5|1|OFFID|true",
        "nonsense",
    )
    text = "".join(f"{record.replace('|', chr(1))}{chr(2)}" for record in records)
    admin.json("sendMessage", "-t", topic, "-p", text, "-k", "ID-1 ID-2 k")
    events = admin.json("queryMsgTraceById", "-t", topic, "-i", "ID-1")
    assert [event["status"] for event in events] == ["sent", "COMMIT_MESSAGE", "begun", "FAILED"]
    shown = admin.text("queryMsgTraceById", "-t", topic, "-i", "ID-1")
    assert "COMMIT_MESSAGE, asked for" in shown
    assert "1 records cannot be read" in shown
    for wrong in ("k", "ID-3"):
        err = admin.refusal("queryMsgTraceById", "-t", topic, "-i", wrong)
        assert "has no trace of a message with the id" in err
