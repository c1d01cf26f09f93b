"""Anomalies of logs: loss, provenance, duplicates, order, offsets, polls and queries."""

from __future__ import annotations

from typing import Final

from staticfire.checkers.anomalies.anomaly import Anomaly

KEPT = "A message that was acknowledged with SEND_OK is kept."
AS_SENT = "Consumers receive only messages that were sent, as they were sent."
ONCE = "A group receives a message again only for a reason that at-least-once delivery allows."
ORDER = "A queue stores messages in the order in which the broker accepted them, and delivers them in this order."
OFFSETS = "The offset of a group shows how far it has consumed."
POLLS = "A member receives the messages of its queue one after the other, and skips none."
FOUND = "A stored message can be read, and is found by its id, its key and its store time."
CLOCK_STEPPED = "the clock of a broker was stepped"

LOG: Final = (
    Anomaly(
        name="lost",
        title="lost message",
        meaning=(
            "a broker acknowledged the message with SEND_OK, and no group received it, although "
            "some group has passed its offset"
        ),
        promise=KEPT,
        example="`0 ok send a / 0 ok send b / 1 ok consume b / 9 ok drain`",
        by_damage=True,
    ),
    Anomaly(
        name="unseen",
        title="message not seen by a group",
        meaning=(
            "some group received the message, but this group never consumed it, although it has "
            "passed its offset"
        ),
        promise=KEPT,
        example="`0 ok send a / 1 info consume a / 9 ok drain`",
        by_damage=True,
    ),
    Anomaly(
        name="lost_from_log",
        title="message gone from its queue",
        meaning=(
            "an acknowledged message is not in its queue after the run, whether a group consumed "
            "it or not"
        ),
        promise=KEPT,
        example="`0 ok send a / 0 ok send b / 1 ok consume a b / 9 ok drain 0:1:1`",
        by_damage=True,
    ),
    Anomaly(
        name="log_hole",
        title="hole in a lost suffix",
        meaning=(
            "a lost message is excused as part of a lost suffix of the log, but the log kept bytes "
            "above it"
        ),
        promise=KEPT,
        example=(
            "after a power cut that may cost a tail, 5 is gone, and 6, acknowledged before the "
            "cut, has survived"
        ),
    ),
    Anomaly(
        name="read_beyond_recovery",
        title="read beyond the recovered log",
        meaning=(
            "a broker without replicas delivered a message from beyond the end that its recovery "
            "had found"
        ),
        promise=KEPT,
        example=(
            "recovery finds the end 100, and 40 s later a consumer receives a message that had "
            "been at 100 before"
        ),
    ),
    Anomaly(
        name="phantom",
        title="phantom message",
        meaning="a group received a message that no producer sent",
        promise=AS_SENT,
        example="`1 ok consume a`",
    ),
    Anomaly(
        name="aborted_read",
        title="delivery of a failed send",
        meaning="a group received a message whose send definitely failed",
        promise=AS_SENT,
        example="`0 fail send a / 1 ok consume a`",
    ),
    Anomaly(
        name="misrouted",
        title="misrouted message",
        meaning=(
            "a group received a message from another topic than it was sent to, from another queue "
            "or offset than the acknowledged one, or from the retry or dead-letter topic of "
            "another group"
        ),
        promise=AS_SENT,
        example="`0 ok send a@0:0 / 1 ok consume a@1:0`",
    ),
    Anomaly(
        name="corrupt",
        title="corrupt body",
        meaning="the body of a delivered message differs from the sent one",
        promise=AS_SENT,
        example="`0 ok send a / 1 ok consume a!`",
    ),
    Anomaly(
        name="delivered_before_send",
        title="delivery before its send",
        meaning="a listener was called with a message whose send had not begun",
        promise=AS_SENT,
        example="`1 ok consume a / 0 ok send a`",
    ),
    Anomaly(
        name="duplicate",
        title="duplicate with a reason",
        meaning="a group received a message again, for a reason that at-least-once delivery allows",
        promise=ONCE,
        example="`0 ok send a / 1 info consume a / 1 ok consume a`",
        hardened="allowed",
        faithful="allowed",
    ),
    Anomaly(
        name="duplicate_unexplained",
        title="unexplained duplicate",
        meaning="a group received a message again without a reason",
        promise=ONCE,
        example="`0 ok send a / 1 ok consume a / 1 ok consume a`",
    ),
    Anomaly(
        name="inconsistent_offsets",
        title="two messages at one offset",
        meaning="a queue has two messages at one offset",
        promise=ORDER,
        example="`0 ok send a@0:0 / 0 ok send b@0:0`",
        by_damage=True,
    ),
    Anomaly(
        name="nonmonotonic_send",
        title="offsets of one producer out of order",
        meaning="a send of one process got a higher offset than a later send of this process",
        promise=ORDER,
        example="`0 ok send a@0:1 / 0 ok send b@0:0`",
        by_damage=True,
    ),
    Anomaly(
        name="realtime_order",
        title="offsets against real time",
        meaning=(
            "a send got a higher offset than a later send of another process, which began after "
            "the first one had ended"
        ),
        promise=ORDER,
        example="`0 ok send a@0:1 / 1 ok send b@0:0`",
        by_damage=True,
    ),
    Anomaly(
        name="out_of_order",
        title="delivery out of order",
        meaning="among its first deliveries, one owner received a higher offset before a lower one",
        promise=ORDER,
        example="`0 ok send a / 0 ok send b / 1 ok consume b / 1 ok consume a`",
    ),
    Anomaly(
        name="delayed_out_of_order",
        title="delayed message out of order",
        meaning=(
            "a delayed message lies in its queue behind one with the same delay that was sent after "
            "its acknowledgement"
        ),
        promise=ORDER,
        example="b, sent after a was acknowledged, both with level 3, lies at offset 3, and a at offset 4",
        by_damage=True,
    ),
    Anomaly(
        name="inconsistent_physical_offset",
        title="two physical offsets of one message",
        meaning=(
            "one message, at one offset of its queue, was acknowledged or delivered with "
            "different physical offsets"
        ),
        promise=ORDER,
        example="`0 ok send a physical=500 / 1 ok consume a`",
        by_damage=True,
    ),
    Anomaly(
        name="nonmonotonic_physical_offset",
        title="physical offsets out of order",
        meaning="the later of two neighbours in a queue is not further up in the commit log",
        promise=ORDER,
        example="`0 ok send a@0:0 physical=500 / 0 ok send b@0:1 physical=400`",
        by_damage=True,
    ),
    Anomaly(
        name="nonmonotonic_store_time",
        title="store times out of order",
        meaning="the later of two neighbours in a queue has the earlier store time",
        promise=ORDER,
        example="stored at 5.0 s, and the message below it at 5.3 s",
        by_damage=True,
    ),
    Anomaly(
        name="int_nonmonotonic_send",
        title="batch stored out of order",
        meaning=(
            "a broker stored the messages of one request in another order than that of the request"
        ),
        promise=ORDER,
        example=(
            "`0 invoke send a t=1 / 0 invoke send b t=1 / 0 ok send a@0:1 t=2 / 0 ok send b@0:0 "
            "t=2`"
        ),
    ),
    Anomaly(
        name="torn_batch",
        title="batch stored in pieces",
        meaning="a broker did not store the messages of one request next to each other",
        promise=ORDER,
        example=(
            "`0 invoke send a t=1 / 0 invoke send b t=1 / 0 ok send a@0:0 t=2 / 0 ok send b@0:2 "
            "t=2`"
        ),
        excuse="the log may have lost its end, and unacknowledged messages were stored again",
    ),
    Anomaly(
        name="commit_ahead",
        title="commit ahead of consumption",
        meaning="a group committed an offset beyond everything that it had consumed",
        promise=OFFSETS,
        example="`0 ok send a / 0 ok send b / 1 ok consume a / 1 ok commit 0:2`",
    ),
    Anomaly(
        name="commit_rewound",
        title="rewound commit",
        meaning=(
            "a commit sets the group's offset back, and no member took the queue over at such an "
            "offset"
        ),
        promise=OFFSETS,
        example=(
            "`0 ok send a / 0 ok send b / 1 ok consume a b / 1 ok commit 0:2 / 1 ok commit 0:1`"
        ),
        excuse="a member took the queue over, and nothing higher was surely committed by then",
        excused="informational",
    ),
    Anomaly(
        name="reset_ignored",
        title="ignored reset of offsets",
        meaning=(
            "a leader sent a group back to the beginning of a queue, or to the time of a message, and a message that "
            "the group had consumed from there on did not come again"
        ),
        promise=OFFSETS,
        example=(
            "a queue keeps its owner: offsets 0 to 9 are consumed, the offsets are reset, and then only offsets "
            "0 to 2, and from 7 on, come again"
        ),
        excuse="the order may not have reached the owner of the queue",
    ),
    Anomaly(
        name="commit_beyond_end",
        title="commit beyond the end",
        meaning="at the drain the group's offset is higher than the end of the queue",
        promise=OFFSETS,
        example="`0 ok send a / 1 ok consume a / 9 info drain 0:1:4`",
        excuse="the disk that held the rest is lost for good",
    ),
    Anomaly(
        name="commit_behind",
        title="commit behind the end",
        meaning=(
            "the drain reports a lag of 0, but the group's offset is below the end of the queue"
        ),
        promise=OFFSETS,
        example="`0 ok send a / 1 ok consume a / 9 ok drain 0:4:1`",
    ),
    Anomaly(
        name="commit_late",
        title="commit late or missing",
        meaning=(
            "a member had finished a message, and committed nothing of the queue soon afterwards, before it gave the "
            "queue up, or before it stopped"
        ),
        promise=OFFSETS,
        example="`1 ok assign 0 / 1 ok commit_to 0 / 0 ok send a / 1 ok consume a / 1 ok assign / 2 ok assign 0`",
    ),
    Anomaly(
        name="poll_skip",
        title="skipped messages between polls",
        meaning=(
            "an owner skipped a stored message that its group had not received (stored: "
            "acknowledged, or delivered to any group)"
        ),
        promise=POLLS,
        example=(
            "`0 ok send a / 0 ok send b / 0 ok send c / 1 ok assign 0 / 1 ok consume a / 1 ok "
            "consume c`"
        ),
        by_damage=True,
    ),
    Anomaly(
        name="int_poll_skip",
        title="skipped messages within a poll",
        meaning=(
            "within one call, the messages of the listener skip a stored one that its group had "
            "not received"
        ),
        promise=POLLS,
        example="`0 ok send a / 0 ok send b / 0 ok send c / 1 ok assign 0 / 1 ok consume a c`",
        by_damage=True,
    ),
    Anomaly(
        name="nonmonotonic_poll",
        title="poll that goes back",
        meaning=(
            "an owner received an offset that is not above its previous one, although its listener "
            "had finished"
        ),
        promise=POLLS,
        example=(
            "`0 ok send a / 0 ok send b / 0 ok send c / 1 ok assign 0 / 1 ok consume a b / 1 ok "
            "commit 0:2 / 1 ok consume a`"
        ),
        excuse="the group had not committed it; informational near a fault",
    ),
    Anomaly(
        name="int_nonmonotonic_poll",
        title="poll out of order",
        meaning="within one call, the listener got an offset that is not above the previous one",
        promise=POLLS,
        example="`0 ok send a / 0 ok send b / 0 ok send c / 1 ok assign 0 / 1 ok consume b a`",
    ),
    Anomaly(
        name="shared_id",
        title="id shared by two messages",
        meaning="the producers gave two messages the same unique message id",
        promise=FOUND,
        example="two sends, and the answers to both have the id 0A000105...0001",
    ),
    Anomaly(
        name="not_found_by_id",
        title="not found by id",
        meaning="a message is in its queue, but a query by its id does not find it",
        promise=FOUND,
        example="acknowledged, consumed, and VIEW_MESSAGE_BY_ID finds nothing",
    ),
    Anomaly(
        name="not_found_by_key",
        title="not found by key",
        meaning="a message is in its queue, but a query by its key does not find it",
        promise=FOUND,
        example="acknowledged, consumed, and QUERY_MESSAGE by its key finds nothing",
    ),
    Anomaly(
        name="torn_answer",
        title="torn record in an answer",
        meaning="a broker answered with an invalid record",
        promise=FOUND,
        example=(
            "a file was deleted under its mapping: the sizes of a record in the answer do not "
            "add up"
        ),
    ),
    Anomaly(
        name="refused_read",
        title="refused read",
        meaning=(
            "a message is in its queue, but its broker fails (SYSTEM_ERROR) to read it, or to "
            "search for its store time"
        ),
        promise=FOUND,
        example="a pull at offset 5 is answered with code 1 and an exception of the store",
    ),
    Anomaly(
        name="wrong_time_search",
        title="wrong search by time",
        meaning=(
            "a search for the store time of a stored message did not return the first message with "
            "that time, or a reset of offsets to a time was answered with an offset that no search leads to"
        ),
        promise=FOUND,
        example="offset 5 was stored at 700 ms, and SEARCH_OFFSET_BY_TIMESTAMP returns 6",
        faithful="informational",
        excuse=CLOCK_STEPPED,
    ),
    Anomaly(
        name="unreadable_topic",
        title="unreadable topic",
        meaning="at the end of the run a broker refuses to serve a retry or dead-letter topic",
        promise=FOUND,
        example="a dead-letter topic with permission to write and not to read",
    ),
)
