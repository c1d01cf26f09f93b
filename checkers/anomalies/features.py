"""Anomalies of features: delays, filters, retries, contents, transactions, keys, replies, forwarding and refusals."""

from __future__ import annotations

from typing import Final

from staticfire.checkers.anomalies.anomaly import Anomaly

IN_TIME = "A message arrives when it is due: not earlier, and not much later."
FILTERED = "A group with a filter receives the messages that the filter accepts, and no others."
RETRIED = "After its listener failed, a message comes again after a delay, and at last becomes one dead letter."
CONTENTS = "A message and its copies keep tag, properties, size, id and times."
DECIDED = "A transactional message is visible if and only if it is committed, and brokers check undecided ones."
KEYED = "Messages of one sharding key stay in one queue and are consumed in order."
REPLIED = "A request gets its own reply, or none."
FORWARDED = "A forwarder acknowledges a message only after a copy of it is stored."
REFUSED = "A broker refuses an illegal send with the code that names the reason."
TAKEN = "A broker accepts a legal send if it can store it."
CLOCK_STEPPED = "the clock of a broker was stepped"
STARTED_WITH_ANOTHER_CLOCK = "the leader started anew, and its clock was stepped"
NO_CLEAR_ANSWER = "a send-back had no clear answer"

FEATURES: Final = (
    Anomaly(
        name="slow_delivery",
        title="slow delivery",
        meaning=(
            "a message waited in its queue for longer than the bound, although a member owned the "
            "queue, no listener was at work on it, and no fault hindered the broker or the member. "
            "The message was acknowledged, or its store time is known"
        ),
        promise=IN_TIME,
        example="`1 ok assign 0 / 0 ok send a t=20 / 1 ok consume a t=24`",
    ),
    Anomaly(
        name="early_delivery",
        title="early delivery",
        meaning="a group received a delayed message before it was due",
        promise=IN_TIME,
        example="delay level 3 is 10 s, delivered after 4 s",
        test="tests/checkers/features/test_delays.py",
        excuse=STARTED_WITH_ANOTHER_CLOCK,
    ),
    Anomaly(
        name="late_delivery",
        title="late delivery",
        meaning=(
            "a delayed message, or a retry, came much later than due, not counting time in which its "
            "queue had no owner, or in which a fault hindered it and no other message of its queue "
            "passed. Or its broker moved it to its queue late, although no fault hindered the broker"
        ),
        promise=IN_TIME,
        example="due at 10 s, no fault, delivered at 90 s",
        excuse=CLOCK_STEPPED,
    ),
    Anomaly(
        name="unwanted_delivery",
        title="unwanted delivery",
        meaning="a group received a message that its filter excludes",
        promise=FILTERED,
        example="a group subscribes to tag A, and receives a message with tag B",
        test="tests/checkers/features/test_filters.py",
    ),
    Anomaly(
        name="retry_unprovoked",
        title="unprovoked retry",
        meaning=(
            "a message came as a retry, or with a retry count, although no listener had failed for "
            "it before, no surviving member reported that it had sent it back, or members sent it "
            "back to another broker only; or more retries came than deliveries with the count below "
            "had failed"
        ),
        promise=RETRIED,
        example="retry count 1 after a success",
        test="tests/checkers/features/test_retries.py",
        excuse=NO_CLEAR_ANSWER,
    ),
    Anomaly(
        name="retry_early",
        title="early retry",
        meaning="a retry came before its delay was over",
        promise=RETRIED,
        example="the second retry after 2 s, not 30 s",
        test="tests/checkers/features/test_retries.py",
        excuse=STARTED_WITH_ANOTHER_CLOCK,
    ),
    Anomaly(
        name="retried_too_often",
        title="too many retries",
        meaning="a message had more retries than the group allows",
        promise=RETRIED,
        example="17 retries, 16 are allowed",
        test="tests/checkers/features/test_retries.py",
    ),
    Anomaly(
        name="premature_dead_letter",
        title="premature dead letter",
        meaning="a message became a dead letter although no delivery had used up its retries",
        promise=RETRIED,
        example="dead after 3 of 16 retries",
        test="tests/checkers/features/test_retries.py",
    ),
    Anomaly(
        name="duplicate_dead_letter",
        title="duplicate dead letter",
        meaning="a message became more dead letters than deliveries had used up its retries",
        promise=RETRIED,
        example="used up once, and twice in the dead-letter topic",
        test="tests/checkers/features/test_retries.py",
        excuse=NO_CLEAR_ANSWER,
    ),
    Anomaly(
        name="consumed_too_long",
        title="consumption beyond its timeout",
        meaning=(
            "a message came again because its listener took longer than the consume timeout "
            "(informational)"
        ),
        promise=RETRIED,
        example="a listener that takes 2000 s",
        test="tests/checkers/features/test_retries.py",
        hardened="informational",
        faithful="informational",
    ),
    Anomaly(
        name="tag_changed",
        title="changed tag",
        meaning="a delivery, or a copy, has another tag than the send",
        promise=CONTENTS,
        example="a retry without the tag",
    ),
    Anomaly(
        name="properties_changed",
        title="changed properties",
        meaning="a delivery, or a copy, has other user properties than the send",
        promise=CONTENTS,
        example="a dead letter that lost its properties",
    ),
    Anomaly(
        name="size_changed",
        title="changed size",
        meaning="a delivery, or a copy, has a body of another size than the send",
        promise=CONTENTS,
        example="sent with 100 bytes, delivered with 99",
    ),
    Anomaly(
        name="id_changed",
        title="changed id",
        meaning=(
            "a delivery, or a copy, has another unique message id than the send or an earlier "
            "delivery"
        ),
        promise=CONTENTS,
        example="a delayed message that gets a new id when it is due",
    ),
    Anomaly(
        name="born_time_changed",
        title="changed born time",
        meaning=(
            "a delivery, or a copy that the broker made, has another born time than the original"
        ),
        promise=CONTENTS,
        example="a retry that is born when it is stored",
    ),
    Anomaly(
        name="wrong_born_time",
        title="wrong born time",
        meaning="the born time of a delivered message is outside its send",
        promise=CONTENTS,
        example="born an hour before it was sent",
    ),
    Anomaly(
        name="wrong_store_time",
        title="wrong store time",
        meaning=(
            "the store time of a message is before its send, before it was due (if delayed), after "
            "its delivery, or after an acknowledgement in one attempt; that of a dead letter is "
            "before any delivery of which it can be a copy"
        ),
        promise=CONTENTS,
        example="stored 5 s before it was born",
    ),
    Anomaly(
        name="store_time_changed",
        title="changed store time",
        meaning="a broker served one record with two store times",
        promise=CONTENTS,
        example="a record has another store time after a restart of the broker",
    ),
    Anomaly(
        name="origin_changed",
        title="changed origin",
        meaning=(
            "a retry or a dead letter names no original, a wrong one, or not the topic to which it "
            "was sent; or a message that was never sent back names an original"
        ),
        promise=CONTENTS,
        example="a second retry that names the first retry as its original",
    ),
    Anomaly(
        name="rolled_back_visible",
        title="visible rollback",
        meaning=(
            "a group received a message whose transaction was rolled back, never decided, or not "
            "yet decided"
        ),
        promise=DECIDED,
        example="a producer rolls back, and a consumer receives the message",
    ),
    Anomaly(
        name="unresolved_transaction",
        title="unresolved transaction",
        meaning=(
            "a transaction stays open: its producer left the end to the check and would have "
            "answered commit, or did answer commit, and no group saw the message; or its producer "
            "never ended it, and no broker checked it within a round after it was due, at rest; or "
            "its producer committed it, and a broker stored the message much later"
        ),
        promise=DECIDED,
        example="no broker checks the transaction",
        by_damage=True,
    ),
    Anomaly(
        name="check_too_early",
        title="check too early",
        meaning=(
            "a broker checked a transaction before the configured time, or before the time that "
            "its half names"
        ),
        promise=DECIDED,
        test="tests/checkers/features/test_check_counts.py",
        example="a check after 1 s; the transaction timeout is 6 s",
        excuse=CLOCK_STEPPED,
    ),
    Anomaly(
        name="checked_too_often",
        title="too many checks",
        meaning=(
            "a broker checked a transaction more often than configured, again after it was over, "
            "twice in one round, or although no producer had sent it or no half of it was stored"
        ),
        promise=DECIDED,
        test="tests/checkers/features/test_check_counts.py",
        example="16 checks, 15 are allowed",
    ),
    Anomaly(
        name="order_violated",
        title="violated order",
        meaning=(
            "an orderly group began a message before it had finished an earlier one of the queue"
        ),
        promise=KEYED,
        example="the listener failed for message 5, and the group begins 6",
        test="tests/checkers/features/test_ordered_keys.py",
        by_damage=True,
    ),
    Anomaly(
        name="retry_uncounted",
        title="uncounted retry",
        meaning=(
            "an owner of an orderly group repeated a failed message without a higher retry count"
        ),
        promise=RETRIED,
        example="the listener failed for message 5, with count 0, and gets it again with count 0",
        test="tests/checkers/features/test_ordered_keys.py",
    ),
    Anomaly(
        name="key_moved",
        title="moved key",
        meaning="different queues acknowledged messages of one sharding key",
        promise=KEYED,
        example="order 7 is in queue 0 and in queue 3",
        test="tests/checkers/features/test_ordered_keys.py",
        excuse="a fault may have changed the routes that producers saw",
    ),
    Anomaly(
        name="hot_key",
        title="hot key",
        meaning=(
            "one sharding key has most of the messages, and its queue lags behind the others "
            "(informational)"
        ),
        promise=KEYED,
        example="9 of 10 messages are of one order",
        test="tests/checkers/features/test_ordered_keys.py",
        hardened="informational",
        faithful="informational",
    ),
    Anomaly(
        name="wrong_answer",
        title="wrong reply",
        meaning="a requester received the reply to another request, or one with other properties than the listener set",
        promise=REPLIED,
        example="request 1 gets the reply to request 2",
        test="tests/checkers/features/test_request_reply.py",
    ),
    Anomaly(
        name="duplicate_reply",
        title="duplicate reply",
        meaning="a request ended with two replies",
        promise=REPLIED,
        example="one request, replies at 1 s and at 2 s",
        test="tests/checkers/features/test_request_reply.py",
    ),
    Anomaly(
        name="phantom_reply",
        title="phantom reply",
        meaning="a reply arrived to a request that no listener had received",
        promise=REPLIED,
        example="no listener replied, and a reply arrives",
        test="tests/checkers/features/test_request_reply.py",
    ),
    Anomaly(
        name="lost_reply",
        title="lost reply",
        meaning=(
            "a requester that still waited never received a reply that a listener had sent: at rest, "
            "or where the broker reports that the requester took it"
        ),
        promise=REPLIED,
        example="request at 0 s, reply sent at 1 s, requester gives up at 5 s without it",
        test="tests/checkers/features/test_request_reply.py",
    ),
    Anomaly(
        name="not_forwarded",
        title="acknowledged without a copy",
        meaning="a member that forwards acknowledged a message before any copy of it was stored",
        promise=FORWARDED,
        example="acknowledged at 2 s, and its copy is stored at 3 s, or never",
    ),
    Anomaly(
        name="phantom_copy",
        title="phantom copy",
        meaning="a member reported a copy of a message that it had not received",
        promise=FORWARDED,
        example="a copy of offset 1, and the member received only offset 0",
    ),
    Anomaly(
        name="wrong_refusal",
        title="wrong refusal",
        meaning="a broker refused an illegal send with another response code than RocketMQ uses",
        promise=REFUSED,
        example=(
            "properties over 32,767 bytes, refused with 17 (TOPIC_NOT_EXIST), not with 13 "
            "(MESSAGE_ILLEGAL)"
        ),
        excuse="a fault of its broker was near",
    ),
    Anomaly(
        name="needless_refusal",
        title="needless refusal",
        meaning=(
            "a broker refused a legal send, or a message that a consumer sent back, although it "
            "could store it"
        ),
        promise=TAKEN,
        example="a send to a healthy broker, refused with 14 (SERVICE_NOT_AVAILABLE)",
        excuse=(
            "it was too busy (in most simulated runs only after a fault of its process or disk), or a fault "
            "of one of its replicas was near"
        ),
    ),
)
