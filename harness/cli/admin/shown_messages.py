"""Formats messages for `staticfire admin`."""

from __future__ import annotations

import base64

from staticfire.harness.cli.admin.answers import Answer, Table, time_text
from staticfire.system_under_test.admin import messages
from staticfire.system_under_test.protocol.message import Message, offset_message_id
from staticfire.system_under_test.remoting.address import format_address

SHOWN_MAX = 100  # characters of a body in a table
LIST_COLUMNS = ("msgId", "offsetMsgId", "queueId", "queueOffset", "stored", "tags", "keys", "body")


def message_record(message: Message, charset: str = "utf-8") -> dict[str, object]:
    """Return all fields of a message; a body that is no text in `charset` is in base 64."""
    body = messages.message_body(message)
    shown: dict[str, object] = {
        "msgId": message.properties.get(messages.UNIQUE_KEY),
        "offsetMsgId": offset_message_id(*message.store_host, message.physical_offset),
        "topic": message.topic,
        "tags": message.properties.get("TAGS"),
        "keys": message.properties.get(messages.KEYS),
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "commitLogOffset": message.physical_offset,
        "reconsumeTimes": message.reconsume_times,
        "bornTimestamp": message.born_timestamp_ms,
        "bornTime": time_text(message.born_timestamp_ms),
        "storeTimestamp": message.store_timestamp_ms,
        "storeTime": time_text(message.store_timestamp_ms),
        "bornHost": format_address(*message.born_host),
        "storeHost": format_address(*message.store_host),
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "properties": message.properties,
    }
    try:
        shown["body"] = body.decode(charset)
    except UnicodeError:
        shown["bodyBase64"] = base64.b64encode(body).decode()
    return shown


def _row(record: dict[str, object]) -> tuple[object, ...]:
    names = ("msgId", "offsetMsgId", "queueId", "queueOffset", "storeTime", "tags", "keys")
    values = [record[name] for name in names]
    body = record.get("body", record.get("bodyBase64"))
    if not isinstance(body, str):
        return tuple(values)
    return (*values, body if len(body) <= SHOWN_MAX else f"{body[:SHOWN_MAX]}...")


def message_table(
    found: list[Message], note: str = "", *, with_bodies: bool = True, charset: str = "utf-8"
) -> Answer:
    """Return messages as a short table; in JSON, with all their fields."""
    document = [message_record(message, charset) for message in found]
    if not with_bodies:
        for record in document:
            record.pop("body", None)
            record.pop("bodyBase64", None)
    columns = LIST_COLUMNS if with_bodies else LIST_COLUMNS[:-1]
    return Table(columns, [_row(record) for record in document], note=note, document=document)
