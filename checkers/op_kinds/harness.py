"""Ops that the harness reports, and the one request that it sends to every client."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from staticfire.checkers.op_kinds.fields import (
    ANYTHING,
    FLAG,
    FLAG_OR_NULL,
    LIST,
    TEXT,
    TEXT_OR_NULL,
    WHOLE,
    WHOLE_OR_NULL,
    Field,
    Fields,
)
from staticfire.checkers.op_kinds.kind import CLIENTS, OpKind
from staticfire.checkers.op_kinds.message_fields import (
    BROKER,
    KEY,
    PLACE,
    QUEUE,
    QUEUE_OFFSET,
    REPLY_PROPERTIES,
    SCOPE,
    TOPIC,
)

CLOCK: Final = "clock"
OFFSET = Field(WHOLE, "an offset of the queue")
FOUND: Fields = {"key": KEY, "queue": QUEUE, "queue_offset": QUEUE_OFFSET}
REFUSED_READS: Fields = {**FOUND, "error": Field(TEXT, "the broker's error")}

OPEN: Final = OpKind(
    name="open",
    about="start again after an `info`, with a new producer if that makes a difference",
    report_about="the client has started; a consumer also reports its configuration",
    form="event",
    asked_of=CLIENTS,
    request={},
    result={},
    reported_by=CLIENTS,
    report={
        "group": Field(TEXT, "the consumer group", True),
        "topic": Field(TEXT, "the topic to which the consumer subscribes", True),
        "expression": Field(TEXT, "the tags or the SQL92 expression", True),
        "model": Field(TEXT, "clustering or broadcasting", True),
        "orderly": Field(FLAG, "whether the consumer is orderly", True),
    },
)

HARNESS: Final = (
    OpKind(
        name=CLOCK,
        about="return the client's monotonic clock as `at_ns`, at once",
        form="unrecorded",
        asked_of=CLIENTS,
        request={},
        result={},
    ),
    OpKind(
        name="probe",
        about="whether a broker accepts sends after the faults; with a key it is a send",
        form="event",
        reported_by=("harness",),
        report={"broker": BROKER},
    ),
    OpKind(
        name="drain",
        about="the progress of a group at the end of the run",
        form="event",
        reported_by=("harness",),
        report={
            **SCOPE,
            "queues": Field(
                LIST,
                "the group's position in each queue",
                row={
                    "broker": BROKER,
                    "queue": QUEUE,
                    "min": replace(OFFSET, about="the queue's first offset"),
                    "max": replace(OFFSET, about="the queue's end"),
                    "committed": replace(OFFSET, about="the next offset for the group"),
                },
            ),
            "lag": Field(WHOLE, "number of messages left"),
            "still_s": Field(WHOLE, "the wait ended after this time without progress", True),
        },
    ),
    OpKind(
        name="look_up",
        about="whether a node of a broker still finds acknowledged messages",
        form="event",
        rows="messages",
        reported_by=("harness",),
        report={
            "topic": TOPIC,
            "broker": BROKER,
            "indexed": Field(FLAG, "whether brokers keep an index of keys"),
            "messages": Field(
                LIST,
                "what was found",
                row={
                    **FOUND,
                    "by_key": Field(FLAG, "found by its key"),
                    "by_id": Field(FLAG_OR_NULL, "found by its id; null: no id is known"),
                    "in_queue": Field(FLAG, "found in its queue"),
                },
            ),
            "node": Field(TEXT, "the node that was asked", True),
            "asked": Field(WHOLE, "number of messages requested", True),
            "first_offsets": Field(
                LIST,
                "the first offsets of queues that lack some messages",
                True,
                row={"queue": QUEUE, "offset": OFFSET},
            ),
            "torn": Field(LIST, "unreadable messages", True, row=REFUSED_READS),
            "refused": Field(
                LIST, "messages for which the broker failed (SYSTEM_ERROR)", True, row=REFUSED_READS
            ),
            "searched": Field(
                LIST,
                "answers to searches by store time",
                True,
                row={
                    **FOUND,
                    "stored_ms": Field(WHOLE, "the message's store time"),
                    "answer": OFFSET,
                    "answer_stored_ms": Field(
                        WHOLE_OR_NULL, "the store time of the message at that offset"
                    ),
                    "before_stored_ms": Field(
                        WHOLE_OR_NULL, "the store time of the message before it"
                    ),
                },
            ),
            "search_error": Field(TEXT_OR_NULL, "why the searches got no answer", True),
        },
    ),
    OpKind(
        name="try_read",
        about="whether a retry or dead-letter topic can be read at the end of the run",
        form="event",
        reported_by=("harness",),
        report={**SCOPE, **PLACE},
    ),
    OpKind(
        name="answer",
        about="the reply to a request reached the producer that waited for it",
        form="event",
        reported_by=("harness",),
        report={
            "topic": TOPIC,
            "key": replace(KEY, about="the key of the request"),
            "reply": Field(TEXT, "the key at the beginning of the reply"),
            "properties": replace(REPLY_PROPERTIES, about="that digest of the reply that arrived"),
        },
    ),
    OpKind(
        name="refused",
        about="the code with which a broker refused an illegal send",
        form="event",
        reported_by=("harness",),
        report={
            "topic": TOPIC,
            "key": KEY,
            "illegal": Field(TEXT, "what is wrong with the send"),
            "code": Field(WHOLE, "the response code"),
            "broker": Field(TEXT_OR_NULL, "the broker, if it is known", True),
        },
    ),
    OpKind(
        name="txn",
        about="sends and polls that happen all or not at all, as Jepsen writes them",
        form="event",
        reported_by=("harness",),
        report={"mops": Field(LIST, "sends and polls", item=Field(ANYTHING, "one of them"))},
    ),
)
