"""Ops of producers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from staticfire.checkers.op_kinds.fields import (
    FLAG,
    LIST,
    NUMBER,
    TEXT,
    TEXT_OR_NULL,
    WHOLE,
    Field,
    Fields,
)
from staticfire.checkers.op_kinds.kind import OpKind
from staticfire.checkers.op_kinds.message_fields import (
    BROKER,
    KEY,
    MANY_MAX,
    MESSAGE,
    MESSAGE_OPTIONAL,
    PADDING_MAX,
    PLACE,
    QUEUE,
    QUEUE_OFFSET,
    RANGE_LENGTH,
    RANGE_START,
    SENT,
    SIZE,
    STORED,
    TOPIC,
    TRANSACTION_STATES,
)

SEND_MANY: Final = "send_many"
STATE = Field(TEXT, "how the local transaction ends", allowed=TRANSACTION_STATES)
SENDS_MANY: Fields = {
    "topic": TOPIC,
    "count": Field(WHOLE, "how many messages", least=1, most=MANY_MAX),
    "key": Field(TEXT, "the first key, `p<process>-<n>`; the others follow it: p3-98, p3-99, ..."),
    "size": replace(SIZE, about="bytes of each body"),
}
# Facts about a send that the harness knows, and adds in its history.
NOTED_OF_SENDS: Fields = {
    "batch": Field(WHOLE, "how many messages its batch has"),
    "delay_ms": Field(WHOLE, "how long brokers keep it from consumers"),
    "transaction": Field(TEXT, "how its transaction ends", allowed=TRANSACTION_STATES),
    "stored_at": Field(WHOLE, "the physical offset at which it is kept until then"),
    "illegal": Field(TEXT, "why it must be refused"),
    "code": Field(WHOLE, "the response code with which it was refused"),
    "refused_by": Field(TEXT_OR_NULL, "the broker that refused it"),
}

PRODUCER: Final = (
    OpKind(
        name="send",
        about="send one message",
        form="send",
        asked_of=("producer",),
        request={
            "topic": TOPIC,
            **MESSAGE,
            "one_way": Field(FLAG, "no broker answers", True),
            "async": Field(
                FLAG,
                "by the client's asynchronous interface, if it has one; the answer follows its callback",
                True,
            ),
            "broker": replace(BROKER, about="only to this broker, one attempt", is_optional=True),
            "queue": replace(QUEUE, about="only to this queue of it", is_optional=True),
            "sharding_key": Field(
                TEXT,
                "to [the queue that belongs to it](#what-is-there-and-what-a-client-does-itself), one attempt",
                True,
            ),
            "padding": Field(
                WHOLE,
                "the length of a further property `PADDING`, so many `x`: the section of properties may be too "
                "long for brokers",
                True,
                least=0,
                most=PADDING_MAX,
            ),
            "account": Field(
                TEXT,
                "with the keys of that one of `accounts`, or `plain`: without TLS; one attempt",
                True,
            ),
            **MESSAGE_OPTIONAL,
        },
        result=SENT,
        noted=NOTED_OF_SENDS,
    ),
    OpKind(
        name="send_batch",
        about="send several messages in one request",
        form="send",
        recorded_as="send",
        asked_of=("producer",),
        request={
            "topic": TOPIC,
            "messages": Field(
                LIST,
                "the messages; `topic` or `delay_level` in one of them makes it no batch, which the library has "
                "to refuse",
                objects={
                    **MESSAGE,
                    **MESSAGE_OPTIONAL,
                    "topic": replace(TOPIC, is_optional=True),
                },
            ),
        },
        result={"messages": Field(LIST, "where each is, in the same order", objects=SENT)},
    ),
    OpKind(
        name=SEND_MANY,
        about="send one batch of messages whose keys follow the first",
        form="send",
        rows="stretches",
        asked_of=("producer",),
        request=SENDS_MANY,
        result={
            **PLACE,
            "stretches": Field(
                LIST, "all messages of the batch, in order", row={**RANGE_START, **RANGE_LENGTH}
            ),
            **STORED,
        },
        reported_by=("consumer",),
        report=SENDS_MANY,
        report_about="a consumer that forwards sends a batch; `ok` adds the fields of an answer",
    ),
    OpKind(
        name="transact",
        about="send a half message, then end the transaction by `state`",
        form="send",
        recorded_as="send",
        asked_of=("producer",),
        request={
            "topic": TOPIC,
            **MESSAGE,
            "state": STATE,
            "answers": Field(
                LIST,
                "answers to the broker's questions, one after the other, the last one for ever; without them "
                "`state`, and `commit` after `unknown`. They are kept in the property `ANSWERS` of the message, so "
                "any producer of the group can answer",
                True,
                item=STATE,
            ),
            "check_after_s": Field(
                WHOLE,
                "seconds in which brokers must not check it, in place of their own time",
                True,
            ),
            **MESSAGE_OPTIONAL,
        },
        result={
            **PLACE,
            "state": Field(TEXT, "how the transaction was ended"),
            "half_queue_offset": replace(
                QUEUE_OFFSET, about="the half message's queue offset", is_optional=True
            ),
            "half_physical_offset": Field(WHOLE, "the half message's physical offset", True),
            "told": Field(FLAG, "whether the end of the transaction went out", True),
            **STORED,
        },
    ),
    OpKind(
        name="request",
        about="send one message, and wait for the reply of a consumer; `info` without a reply or an acknowledgement",
        form="send",
        recorded_as="send",
        asked_of=("producer",),
        request={
            "topic": TOPIC,
            **MESSAGE,
            "timeout_s": Field(NUMBER, "how long to wait for the reply", True),
            **MESSAGE_OPTIONAL,
        },
        result={**SENT, "reply": Field(TEXT, "the key that the reply begins with")},
    ),
    OpKind(
        name="check_back",
        about="the producer answered a broker that asked how a transaction ended",
        form="event",
        reported_by=("producer",),
        report={
            "topic": TOPIC,
            "key": KEY,
            "state": Field(TEXT, "what the producer answered"),
            "times": Field(WHOLE, "how often the broker has asked", True),
            "broker": Field(TEXT, "the name of the broker that asked", True),
        },
    ),
)
