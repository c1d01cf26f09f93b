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
    REPLY_PROPERTIES,
    SENT,
    SIZE,
    STORED,
    TOPIC,
    TRANSACTION_STATES,
)

SEND_MANY: Final = "send_many"
STATE = Field(TEXT, "outcome of the local transaction", allowed=TRANSACTION_STATES)
SENDS_MANY: Fields = {
    "topic": TOPIC,
    "count": Field(WHOLE, "number of messages", least=1, most=MANY_MAX),
    "key": Field(TEXT, "the first key, `p<process>-<n>`; the others follow it: p3-98, p3-99, ..."),
    "size": replace(SIZE, about="size of each body in bytes"),
}
# Fields of a send that the harness adds in the history.
NOTED_OF_SENDS: Fields = {
    "batch": Field(WHOLE, "number of messages in its batch"),
    "delay_ms": Field(WHOLE, "how long brokers withhold the message from consumers"),
    "transaction": Field(TEXT, "outcome of its transaction", allowed=TRANSACTION_STATES),
    "stored_at": Field(WHOLE, "the physical offset at which the message is kept until then"),
    "illegal": Field(TEXT, "why brokers must refuse the message"),
    "code": Field(WHOLE, "the response code of the refusal"),
    "refused_by": Field(TEXT_OR_NULL, "the broker that refused the message"),
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
            "one_way": Field(FLAG, "a one-way send: no broker answers", True),
            "async": Field(
                FLAG,
                "use the client's asynchronous interface, if it has one; the answer follows its callback",
                True,
            ),
            "broker": replace(
                BROKER, about="send only to this broker, in one attempt", is_optional=True
            ),
            "queue": replace(
                QUEUE, about="send only to this queue of that broker", is_optional=True
            ),
            "sharding_key": Field(
                TEXT,
                "send to [the queue for this key](#what-is-there-and-what-a-client-does-itself), in one attempt",
                True,
            ),
            "padding": Field(
                WHOLE,
                "length of an extra property `PADDING`, which consists of `x`: the properties may become too long "
                "for brokers",
                True,
                least=0,
                most=PADDING_MAX,
            ),
            "account": Field(
                TEXT,
                "use the keys of this one of `accounts`, or, with `plain`, no TLS; one attempt",
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
                "the messages; with `topic` or `delay_level` in one of them, the batch is invalid and the library "
                "must refuse it",
                objects={
                    **MESSAGE,
                    **MESSAGE_OPTIONAL,
                    "topic": replace(TOPIC, is_optional=True),
                },
            ),
        },
        result={
            "messages": Field(LIST, "the position of each message, in the same order", objects=SENT)
        },
    ),
    OpKind(
        name=SEND_MANY,
        about="send one batch of messages whose keys follow the first",
        form="send",
        rows="ranges",
        asked_of=("producer",),
        request=SENDS_MANY,
        result={
            **PLACE,
            "ranges": Field(
                LIST, "all messages of the batch, in order", row={**RANGE_START, **RANGE_LENGTH}
            ),
            **STORED,
        },
        reported_by=("consumer",),
        report=SENDS_MANY,
        report_about="a forwarding consumer sends a batch; `ok` adds the fields of an answer",
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
                "answers to the broker's questions, in order; the last one repeats. The default is `state`, or "
                "`commit` after `unknown`. The message keeps them in its property `ANSWERS`, so any producer of the "
                "group can answer",
                True,
                item=STATE,
            ),
            "check_after_s": Field(
                WHOLE,
                "seconds during which brokers must not check the transaction, instead of their default",
                True,
            ),
            **MESSAGE_OPTIONAL,
        },
        result={
            **PLACE,
            "state": Field(TEXT, "how the producer ended the transaction"),
            "half_queue_offset": replace(
                QUEUE_OFFSET, about="the half message's queue offset", is_optional=True
            ),
            "half_physical_offset": Field(WHOLE, "the half message's physical offset", True),
            "end_sent": Field(FLAG, "whether the end of the transaction was sent", True),
            **STORED,
        },
    ),
    OpKind(
        name="request",
        about="send one message and wait for a consumer's reply; `info` if the reply or the acknowledgement is missing",
        form="send",
        recorded_as="send",
        asked_of=("producer",),
        request={
            "topic": TOPIC,
            **MESSAGE,
            "timeout_s": Field(NUMBER, "how long to wait for the reply", True),
            **MESSAGE_OPTIONAL,
        },
        result={
            **SENT,
            "reply": Field(TEXT, "the key at the beginning of the reply"),
            "reply_properties": replace(
                REPLY_PROPERTIES,
                about="the digest of the reply's properties, as consumers report it in `reply`",
            ),
        },
    ),
    OpKind(
        name="check_back",
        about="the producer answered a broker's question about the outcome of a transaction",
        form="event",
        reported_by=("producer",),
        report={
            "topic": TOPIC,
            "key": KEY,
            "state": Field(TEXT, "what the producer answered"),
            "times": Field(WHOLE, "how many times the broker has asked", True),
            "broker": Field(TEXT, "the name of the broker that asked", True),
        },
    ),
)
