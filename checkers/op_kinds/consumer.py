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
    REPLY_PROPERTIES,
    SCOPE,
    TRIED,
)

CONSUME_MANY: Final = "consume_many"
GO_ON: Final = "go_on"

CONSUMER: Final = (
    OpKind(
        name="slow_listener",
        about="from now on, every listener call takes longer",
        form="unrecorded",
        asked_of=("consumer",),
        request={"delay_s": Field(NUMBER, "duration of each call; 0 ends the delay")},
        result={},
    ),
    OpKind(
        name="failing_listener",
        about="from now on, the listener fails",
        form="unrecorded",
        asked_of=("consumer",),
        request={
            "share": Field(NUMBER, "share of calls that fail; 0 ends the failures"),
            "tries": Field(
                WHOLE, "the listener fails for each message until this number of attempts", True
            ),
            "delay_level": Field(
                WHOLE,
                "delay level that it then requests; 0: by the number of attempts; below 0: a dead letter at once",
                True,
            ),
        },
        result={},
    ),
    OpKind(
        name="listener_counters",
        about="number of times that the listener was slow or failed so far",
        form="unrecorded",
        asked_of=("consumer",),
        request={},
        result={
            "delayed": Field(WHOLE, "number of delayed calls", True),
            "failed": Field(WHOLE, "number of failed calls", True),
        },
    ),
    OpKind(
        name=GO_ON,
        about="the history has recorded the beginning of this send; see "
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
                "all queues of the topic that this member now owns",
                row={"broker": BROKER, "queue": QUEUE},
            ),
            "from_beginning": Field(
                FLAG, "whether the member reads them from their beginning", True
            ),
        },
    ),
    OpKind(
        name="commit",
        about="the member sent offsets to brokers, or saved its own (broadcasting); `info`: it got no confirmation, "
        "and a broker may still process the commit",
        form="commit",
        rows="offsets",
        reported_by=("consumer",),
        report={
            **SCOPE,
            "offsets": Field(
                LIST,
                "the next offset for the group in each queue",
                row={
                    "broker": BROKER,
                    "queue": QUEUE,
                    "offset": Field(WHOLE, "the next offset for the group"),
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
                "the messages passed to the listener; in contents, null stands for what the client does not know",
                row=DELIVERED,
                contents=CONTENTS,
            ),
        },
    ),
    OpKind(
        name=CONSUME_MANY,
        about="`consume` with `condensed`: consecutive messages form one range",
        form="delivery",
        rows="ranges",
        reported_by=("consumer",),
        report={
            **SCOPE,
            **PLACE,
            "ranges": Field(
                LIST,
                "the messages passed to the listener",
                row={**RANGE_START, "intact": INTACT, "tried": TRIED, **RANGE_LENGTH},
            ),
        },
    ),
    OpKind(
        name="reply",
        about="the consumer replied to a message that requested a reply; `info`: the outcome is unknown",
        form="event",
        reported_by=("consumer",),
        report={
            **SCOPE,
            "key": replace(KEY, about="the key of the request"),
            "properties": REPLY_PROPERTIES,
        },
    ),
    OpKind(
        name="send_back",
        about="messages were sent back; `ok`: a broker has a copy that is as safe as its options require",
        form="event",
        rows="messages",
        reported_by=("consumer",),
        report={
            **SCOPE,
            **PLACE,
            "messages": Field(
                LIST,
                "the messages that were sent back",
                row={"key": KEY, "queue_offset": QUEUE_OFFSET, "tried": TRIED},
            ),
            "copied": Field(
                FLAG,
                "whether this client sent a copy of its own, because the broker that holds the message made none",
                True,
            ),
            "code": Field(
                WHOLE_OR_NULL,
                "the response code with which the broker that holds the message refused to make a copy; 10 or 12: it "
                "made one that is not flushed (10) or replicated (12) yet; null: no answer. If missing, the broker "
                "made a copy or was not asked",
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
                "positions of the originals",
                row={
                    "queue_offset": Field(
                        WHOLE, "the first queue offset", least=0, most=OFFSET_MAX - 1
                    ),
                    "count": Field(WHOLE, "number of consecutive messages", least=1, most=MANY_MAX),
                },
            ),
            "key": Field(TEXT, "the key of the first copy, `p<process>-<n>`; the others follow"),
        },
    ),
    OpKind(
        name="begin",
        about="a broker reported the group's offset in a queue that this member has taken",
        form="event",
        reported_by=("consumer",),
        report={
            **SCOPE,
            **PLACE,
            "offset": Field(
                WHOLE_OR_NULL, "the reported offset; null: the broker knows none", True
            ),
            "broker_id": Field(
                WHOLE,
                "id of the broker that reported the offset; 0: the master. With it, checkers find an offset that the "
                "master has forgotten whatever happens to its slaves",
                True,
            ),
        },
    ),
    OpKind(
        name="commit_to",
        about="the brokers to which this member sends its next commit; reported right before each `commit`",
        form="event",
        rows="brokers",
        reported_by=("consumer",),
        report={
            "group": GROUP,
            "brokers": Field(
                LIST,
                "the broker for each name",
                row={
                    "broker": BROKER,
                    "id": Field(WHOLE, "id of the broker; 0: the master"),
                    "arrived": Field(
                        FLAG,
                        "whether the offsets last sent to this name have arrived, because that broker has answered a "
                        "later request on the same connection",
                    ),
                },
            ),
        },
    ),
)
