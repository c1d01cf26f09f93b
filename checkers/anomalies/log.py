"""Anomalies of logs: loss, order, offsets, polls, look-ups."""

from __future__ import annotations

from typing import Final

from staticfire.checkers.anomalies.anomaly import Anomaly

KEPT = "A message that was acknowledged with SEND_OK is kept."
AS_SENT = "Only what was sent is delivered, as it was sent."
ONCE = "A group is given a message again only for a reason that at-least-once delivery knows."
ORDER = "A queue keeps messages in the order in which it took them, and gives them out in it."
OFFSETS = "The offset of a group says how far it has consumed."
POLLS = "A member is given the messages of its queue one after the other, and none is left out."
FOUND = "A stored message can be read, and is found by its id, its key and its store time."
CLOCK_STEPPED = "the clock of a broker was stepped"

LOG: Final = (
    Anomaly(
        name="lost",
        title="lost message",
        meaning=(
            "acknowledged with SEND_OK, and delivered to no consumer although some group has "
            "passed its place"
        ),
        promise=KEPT,
        example="`0 ok send a / 0 ok send b / 1 ok consume b / 9 ok drain`",
        by_damage=True,
    ),
    Anomaly(
        name="unseen",
        title="message not seen by a group",
        meaning=(
            "delivered to some group, acknowledged or not, but never consumed by this group, "
            "which has passed its place"
        ),
        promise=KEPT,
        example="`0 ok send a / 1 info consume a / 9 ok drain`",
        by_damage=True,
    ),
    Anomaly(
        name="lost_from_log",
        title="message gone from its queue",
        meaning="acknowledged, and not in its queue after the run, consumed or not",
        promise=KEPT,
        example="`0 ok send a / 0 ok send b / 1 ok consume a b / 9 ok drain 0:1:1`",
        by_damage=True,
    ),
    Anomaly(
        name="log_hole",
        title="hole in a lost suffix",
        meaning=(
            "a loss excused as part of a lost suffix of the log, although the log reached beyond it"
        ),
        promise=KEPT,
        example=(
            "a power cut may cost a tail: 5 is gone, and 6, acknowledged before the cut, has "
            "survived"
        ),
    ),
    Anomaly(
        name="read_beyond_recovery",
        title="read beyond the recovered log",
        meaning="delivered from beyond where a broker without replicas had recovered its log",
        promise=KEPT,
        example="recovered up to 100, and 40 s later what lay at 100 before is delivered",
    ),
    Anomaly(
        name="phantom",
        title="phantom message",
        meaning="delivered, and no producer sent it",
        promise=AS_SENT,
        example="`1 ok consume a`",
    ),
    Anomaly(
        name="aborted_read",
        title="delivery of a failed send",
        meaning="delivered, although its send definitely failed",
        promise=AS_SENT,
        example="`0 fail send a / 1 ok consume a`",
    ),
    Anomaly(
        name="misrouted",
        title="misrouted message",
        meaning=(
            "delivered from another topic, or another queue or offset than the one that "
            "acknowledged it, or from the retry or dead-letter topic of another group"
        ),
        promise=AS_SENT,
        example="`0 ok send a@0:0 / 1 ok consume a@1:0`",
    ),
    Anomaly(
        name="corrupt",
        title="corrupt body",
        meaning="the body is not what was sent",
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
        meaning="a group got a message again, for a reason that at-least-once allows",
        promise=ONCE,
        example="`0 ok send a / 1 info consume a / 1 ok consume a`",
        hardened="allowed",
        faithful="allowed",
    ),
    Anomaly(
        name="duplicate_unexplained",
        title="unexplained duplicate",
        meaning="a group got a message again for no reason",
        promise=ONCE,
        example="`0 ok send a / 1 ok consume a / 1 ok consume a`",
    ),
    Anomaly(
        name="inconsistent_offsets",
        title="two messages at one offset",
        meaning="two messages at one offset of a queue",
        promise=ORDER,
        example="`0 ok send a@0:0 / 0 ok send b@0:0`",
        by_damage=True,
    ),
    Anomaly(
        name="nonmonotonic_send",
        title="offsets of one producer out of order",
        meaning="a send of one process got a higher offset than a later one",
        promise=ORDER,
        example="`0 ok send a@0:1 / 0 ok send b@0:0`",
        by_damage=True,
    ),
    Anomaly(
        name="realtime_order",
        title="offsets against real time",
        meaning="the same across processes: it had ended before the other began",
        promise=ORDER,
        example="`0 ok send a@0:1 / 1 ok send b@0:0`",
        by_damage=True,
    ),
    Anomaly(
        name="out_of_order",
        title="delivery out of order",
        meaning="one owner was first given a higher offset, then a lower one",
        promise=ORDER,
        example="`0 ok send a / 0 ok send b / 1 ok consume b / 1 ok consume a`",
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
        meaning=(
            "of two neighbours in a queue the later one does not lie further up in the commit log"
        ),
        promise=ORDER,
        example="`0 ok send a@0:0 physical=500 / 0 ok send b@0:1 physical=400`",
        by_damage=True,
    ),
    Anomaly(
        name="nonmonotonic_store_time",
        title="store times out of order",
        meaning="of two neighbours in a queue the later one was stored before the other",
        promise=ORDER,
        example="stored at 5.0 s, and the message below it at 5.3 s",
        by_damage=True,
    ),
    Anomaly(
        name="int_nonmonotonic_send",
        title="batch stored out of order",
        meaning="the messages of one request were stored in another order than it held them in",
        promise=ORDER,
        example=(
            "`0 invoke send a t=1 / 0 invoke send b t=1 / 0 ok send a@0:1 t=2 / 0 ok send b@0:0 "
            "t=2`"
        ),
    ),
    Anomaly(
        name="torn_batch",
        title="batch stored in pieces",
        meaning="the messages of one request were not stored side by side",
        promise=ORDER,
        example=(
            "`0 invoke send a t=1 / 0 invoke send b t=1 / 0 ok send a@0:0 t=2 / 0 ok send b@0:2 "
            "t=2`"
        ),
        excuse="the log may have lost its end, and what is not acknowledged was stored once more",
    ),
    Anomaly(
        name="commit_ahead",
        title="commit ahead of consumption",
        meaning="an offset was committed beyond everything that the group had consumed",
        promise=OFFSETS,
        example="`0 ok send a / 0 ok send b / 1 ok consume a / 1 ok commit 0:2`",
    ),
    Anomaly(
        name="commit_rewound",
        title="rewound commit",
        meaning="one owner commits a lower offset than before",
        promise=OFFSETS,
        example=(
            "`0 ok send a / 0 ok send b / 1 ok consume a b / 1 ok commit 0:2 / 1 ok commit 0:1`"
        ),
        excuse="a member took the queue over, and nothing higher was surely committed by then",
        excused="informational",
    ),
    Anomaly(
        name="commit_beyond_end",
        title="commit beyond the end",
        meaning="at the drain the group's offset is higher than the queue is long",
        promise=OFFSETS,
        example="`0 ok send a / 1 ok consume a / 9 info drain 0:1:4`",
        excuse="the disk that held the rest is lost for good",
    ),
    Anomaly(
        name="commit_behind",
        title="commit behind the end",
        meaning="the drain says that nothing is left, and the offset is below the end",
        promise=OFFSETS,
        example="`0 ok send a / 1 ok consume a / 9 ok drain 0:4:1`",
    ),
    Anomaly(
        name="poll_skip",
        title="skipped messages between polls",
        meaning=(
            "an owner was given a message behind a stored one (acknowledged, or given to any "
            "group) that its group had not been given"
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
        meaning="the same within one call of the listener",
        promise=POLLS,
        example="`0 ok send a / 0 ok send b / 0 ok send c / 1 ok assign 0 / 1 ok consume a c`",
        by_damage=True,
    ),
    Anomaly(
        name="nonmonotonic_poll",
        title="poll that goes back",
        meaning="an owner went back, and not because its listener had not finished",
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
        meaning="the same within one call of the listener",
        promise=POLLS,
        example="`0 ok send a / 0 ok send b / 0 ok send c / 1 ok assign 0 / 1 ok consume b a`",
    ),
    Anomaly(
        name="not_found_by_id",
        title="not found by id",
        meaning="in its queue, and its id leads to nothing",
        promise=FOUND,
        example="acknowledged, consumed, and VIEW_MESSAGE_BY_ID finds nothing",
    ),
    Anomaly(
        name="not_found_by_key",
        title="not found by key",
        meaning="in its queue, and its key does not find it",
        promise=FOUND,
        example="acknowledged, consumed, and QUERY_MESSAGE by its key finds nothing",
    ),
    Anomaly(
        name="torn_answer",
        title="torn record in an answer",
        meaning="a broker answered with a record that is none",
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
            "in its queue, and its broker fails (SYSTEM_ERROR) to read it there, or to search "
            "for its store time"
        ),
        promise=FOUND,
        example="a pull at offset 5 is answered with code 1 and an exception of the store",
    ),
    Anomaly(
        name="wrong_time_search",
        title="wrong search by time",
        meaning=(
            "the search for the store time of a stored message did not lead to the first message "
            "with that time"
        ),
        promise=FOUND,
        example="offset 5 was stored at 700 ms, and SEARCH_OFFSET_BY_TIMESTAMP says 6",
        faithful="informational",
        excuse=CLOCK_STEPPED,
    ),
    Anomaly(
        name="unreadable_topic",
        title="unreadable topic",
        meaning="a broker refuses to give out a retry or dead-letter topic at the end of the run",
        promise=FOUND,
        example="dead letters that may be written and not be read",
    ),
)
