"""Ops of consumers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from staticfire.checkers.op_kinds.fields import (
    FLAG,
    LIST,
    NUMBER,
    TEXT,
    WHOLE,
    WHOLE_OR_NULL,
    Field,
)
from staticfire.checkers.op_kinds.kind import OpKind
from staticfire.checkers.op_kinds.message_fields import (
    BROKER,
    CONTENTS,
    DELIVERED,
    GROUP,
    INTACT,
    KEY,
    MANY_MAX,
    OFFSET_MAX,
    PLACE,
    QUEUE,
    QUEUE_OFFSET,
    RANGE_LENGTH,
    RANGE_START,
    SCOPE,
    TRIED,
)

CONSUME_MANY: Final = "consume_many"
GO_ON: Final = "go_on"

CONSUMER: Final = (
    OpKind(
        name="slow_listener",
        about="every call of the listener takes longer from now on",
        form="unrecorded",
        asked_of=("consumer",),
        request={"delay_s": Field(NUMBER, "how long each call takes; 0 ends it")},
        result={},
    ),
    OpKind(
        name="failing_listener",
        about="the listener fails from now on",
        form="unrecorded",
        asked_of=("consumer",),
        request={
            "share": Field(NUMBER, "the share of its calls that fail; 0 ends it"),
            "tries": Field(WHOLE, "it fails for each message until it was tried so often", True),
            "delay_level": Field(
                WHOLE,
                "what it asks for then: 0 by the number of tries, below 0 a dead letter at once",
                True,
            ),
        },
        result={},
    ),
    OpKind(
        name="listener_counters",
        about="how often the listener was slow or failed, so far",
        form="unrecorded",
        asked_of=("consumer",),
        request={},
        result={
            "delayed": Field(WHOLE, "calls that were delayed", True),
            "failed": Field(WHOLE, "calls that failed", True),
        },
    ),
    OpKind(
        name=GO_ON,
        about="the history holds the beginning of this send, see "
        "[What forwarders report](#what-forwarders-report)",
        form="unrecorded",
        asked_of=("consumer",),
        request={"key": Field(TEXT, "the first key of the batch")},
        result={},
    ),
    OpKind(
        name="assign",
        about="the queues of this member have changed; one report for each topic",
        form="event",
        reported_by=("consumer",),
        report={
            **SCOPE,
            "queues": Field(
                LIST,
                "all that this member has of the topic now",
                row={"broker": BROKER, "queue": QUEUE},
            ),
            "from_beginning": Field(FLAG, "whether it reads them from their beginning", True),
        },
    ),
    OpKind(
        name="commit",
        about="the member sent offsets to brokers, or has saved its own (broadcasting); `info`: it waited for a "
        "confirmation in vain, and a broker may still carry that out",
        form="commit",
        rows="offsets",
        reported_by=("consumer",),
        report={
            **SCOPE,
            "offsets": Field(
                LIST,
                "the next offset that the group wants of each queue",
                row={
                    "broker": BROKER,
                    "queue": QUEUE,
                    "offset": Field(WHOLE, "the next offset that the group wants"),
                },
            ),
        },
    ),
    OpKind(
        name="consume",
        about="`invoke`: the listener is called; `ok`: it succeeded; `info`: it failed",
        form="delivery",
        rows="messages",
        reported_by=("consumer",),
        report={
            **SCOPE,
            **PLACE,
            "messages": Field(
                LIST,
                "what the listener was given; in contents null is what the client does not know",
                row=DELIVERED,
                contents=CONTENTS,
            ),
        },
    ),
    OpKind(
        name=CONSUME_MANY,
        about="the same with `condensed`: messages that lie one after another are one stretch",
        form="delivery",
        rows="stretches",
        reported_by=("consumer",),
        report={
            **SCOPE,
            **PLACE,
            "stretches": Field(
                LIST,
                "what the listener was given",
                row={**RANGE_START, "intact": INTACT, "tried": TRIED, **RANGE_LENGTH},
            ),
        },
    ),
    OpKind(
        name="reply",
        about="a message that asked for a reply got one; `info`: it is unknown whether it did",
        form="event",
        reported_by=("consumer",),
        report={**SCOPE, "key": replace(KEY, about="the key of the request")},
    ),
    OpKind(
        name="send_back",
        about="messages were sent back; `ok`: a broker has a copy as safe as its options ask",
        form="event",
        rows="messages",
        reported_by=("consumer",),
        report={
            **SCOPE,
            **PLACE,
            "messages": Field(
                LIST,
                "what was sent back",
                row={"key": KEY, "queue_offset": QUEUE_OFFSET, "tried": TRIED},
            ),
            "copied": Field(
                FLAG,
                "whether this client sent a copy of its own, because the broker that holds the message made none",
                True,
            ),
            "code": Field(
                WHOLE_OR_NULL,
                "the response code with which the broker that holds the message refused to make a copy; null: it "
                "gave no answer. Not there: it made one, or was not asked",
                True,
            ),
            "attempts": Field(WHOLE, "how many times this client sent its own copy", True, least=0),
        },
    ),
    OpKind(
        name="forward",
        about="all copies of a batch are stored with SEND_OK",
        form="event",
        reported_by=("consumer",),
        report={
            **SCOPE,
            **PLACE,
            "originals": Field(
                LIST,
                "where the originals lie",
                row={
                    "queue_offset": Field(
                        WHOLE, "the first queue offset", least=0, most=OFFSET_MAX - 1
                    ),
                    "count": Field(WHOLE, "how many follow each other", least=1, most=MANY_MAX),
                },
            ),
            "key": Field(TEXT, "the key of the first copy, `p<process>-<n>`; the others follow"),
        },
    ),
    OpKind(
        name="begin",
        about="a broker has said where the group is in a queue that this member has taken",
        form="event",
        reported_by=("consumer",),
        report={
            **SCOPE,
            **PLACE,
            "offset": Field(WHOLE_OR_NULL, "that offset; null: the broker knows none", True),
            "broker_id": Field(
                WHOLE,
                "the broker that said it, 0: the master. With it an offset that the master has forgotten is found "
                "whatever happens to its slaves",
                True,
            ),
        },
    ),
    OpKind(
        name="commit_to",
        about="to which brokers the commits of this member that follow are sent; right before each `commit`",
        form="event",
        rows="brokers",
        reported_by=("consumer",),
        report={
            "group": GROUP,
            "brokers": Field(
                LIST,
                "the broker of each name",
                row={
                    "broker": BROKER,
                    "id": Field(WHOLE, "its id, 0: the master"),
                    "arrived": Field(
                        FLAG,
                        "whether the offsets that were sent to this name the time before have arrived, because "
                        "that broker has answered a later request on the same connection",
                    ),
                },
            ),
        },
    ),
)
