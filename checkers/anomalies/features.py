"""Anomalies of delays, filters, retries, transactions, keys, replies and forwarding."""

from __future__ import annotations

from typing import Final

from staticfire.checkers.anomalies.anomaly import Anomaly

IN_TIME = "A message comes when it is due: no earlier, and not much later."
FILTERED = "A group that filters is given what its filter takes, and nothing else."
RETRIED = "A message comes again where its listener failed, step by step, and at last becomes one dead letter."
CONTENTS = "A message and its copies keep tag, properties, size, id and times."
DECIDED = "A transactional message is seen if it is committed, and only then; undecided ones are asked about."
KEYED = "Messages of one sharding key stay in one queue and are consumed in order."
REPLIED = "A request is answered with its own reply, or not at all."
FORWARDED = "What a member forwards is stored as a copy before the original is acknowledged."
REFUSED = "An illegal send is refused with the code that says why."
TAKEN = "A broker that can store a legal send takes it."
CLOCK_STEPPED = "the clock of a broker was stepped"
NO_CLEAR_ANSWER = "a send-back had no clear answer"

FEATURES: Final = (
    Anomaly(
        name="slow_delivery",
        title="slow delivery",
        meaning=(
            "an acknowledged message, or at rest one that its broker had stored without one, "
            "waited for longer than the bound, while a member had its queue, had finished what "
            "came before, and no fault was in the way"
        ),
        promise=IN_TIME,
        example="`1 ok assign 0 / 0 ok send a t=20 / 1 ok consume a t=24`",
    ),
    Anomaly(
        name="early_delivery",
        title="early delivery",
        meaning="a delayed message came before it was due",
        promise=IN_TIME,
        example="delay level 3 is 10 s, delivered after 4 s",
        test="tests/checkers/test_semantics.py",
        excuse=CLOCK_STEPPED,
    ),
    Anomaly(
        name="late_delivery",
        title="late delivery",
        meaning=(
            "a delayed message, or a retry that a broker had taken back, came much later than "
            "due, without the time in which its queue had no owner, or a fault was in its way "
            "and no other message of its queue passed; or its broker moved it late, and no fault "
            "was in the broker's way"
        ),
        promise=IN_TIME,
        example="due at 10 s, no fault, delivered at 90 s",
        excuse=CLOCK_STEPPED,
    ),
    Anomaly(
        name="unwanted_delivery",
        title="unwanted delivery",
        meaning="delivered to a group whose filter does not take it",
        promise=FILTERED,
        example="tag A is asked for, a message with tag B comes",
        test="tests/checkers/test_semantics.py",
    ),
    Anomaly(
        name="retry_unprovoked",
        title="unprovoked retry",
        meaning=(
            "a message came as a retry, or with reconsume times, and no listener had failed for "
            "it before, or no member that lived on told that it had sent it back; or, at rest, "
            "more retries of a step than failures before it"
        ),
        promise=RETRIED,
        example="reconsume times 1 after a success",
        test="tests/checkers/test_semantics.py",
        excuse=NO_CLEAR_ANSWER,
    ),
    Anomaly(
        name="retry_early",
        title="early retry",
        meaning="a retry came before its step of the ladder",
        promise=RETRIED,
        example="the second after 2 s, not 30 s",
        test="tests/checkers/test_semantics.py",
        excuse=CLOCK_STEPPED,
    ),
    Anomaly(
        name="retried_too_often",
        title="too many retries",
        meaning="more retries than the group allows",
        promise=RETRIED,
        example="17 retries, 16 are allowed",
        test="tests/checkers/test_semantics.py",
    ),
    Anomaly(
        name="premature_dead_letter",
        title="premature dead letter",
        meaning="a dead letter, although no delivery had used up the retries",
        promise=RETRIED,
        example="dead after 3 of 16 retries",
        test="tests/checkers/test_semantics.py",
    ),
    Anomaly(
        name="duplicate_dead_letter",
        title="duplicate dead letter",
        meaning="more dead letters of a message than deliveries that had used up its retries",
        promise=RETRIED,
        example="used up once, and twice in the dead-letter topic",
        test="tests/checkers/test_semantics.py",
        excuse=NO_CLEAR_ANSWER,
    ),
    Anomaly(
        name="consumed_too_long",
        title="consumption beyond its timeout",
        meaning=(
            "a message came again because its listener was busy for longer than the consume "
            "timeout (informational)"
        ),
        promise=RETRIED,
        example="a listener that takes 2000 s",
        test="tests/checkers/test_semantics.py",
        hardened="informational",
        faithful="informational",
    ),
    Anomaly(
        name="tag_changed",
        title="changed tag",
        meaning="a delivery, or a copy, has another tag than it was sent with",
        promise=CONTENTS,
        example="a retry without the tag",
    ),
    Anomaly(
        name="properties_changed",
        title="changed properties",
        meaning="a delivery, or a copy, has other user properties than it was sent with",
        promise=CONTENTS,
        example="a dead letter that lost its properties",
    ),
    Anomaly(
        name="size_changed",
        title="changed size",
        meaning="a delivery, or a copy, has a body of another size than was sent",
        promise=CONTENTS,
        example="sent with 100 bytes, delivered with 99",
    ),
    Anomaly(
        name="id_changed",
        title="changed id",
        meaning=(
            "a delivery, or a copy, has another unique message id than its send, or than an "
            "earlier delivery"
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
        meaning="the born time of a delivered message lies outside its send",
        promise=CONTENTS,
        example="born an hour before it was sent",
    ),
    Anomaly(
        name="wrong_store_time",
        title="wrong store time",
        meaning=(
            "the store time lies before the send, before a delayed message was due, after the "
            "delivery, or after an acknowledgement in one attempt; that of a dead letter before any delivery that it "
            "can be a copy of"
        ),
        promise=CONTENTS,
        example="stored 5 s before it was born",
    ),
    Anomaly(
        name="store_time_changed",
        title="changed store time",
        meaning="one record was given out with two store times",
        promise=CONTENTS,
        example="another one after a restart of the broker",
    ),
    Anomaly(
        name="origin_changed",
        title="changed origin",
        meaning=(
            "a retry or a dead letter names no original, or a wrong one, or not the topic that it "
            "was sent to; or what was never sent back names one"
        ),
        promise=CONTENTS,
        example="a second retry that names the first one",
    ),
    Anomaly(
        name="rolled_back_visible",
        title="visible rollback",
        meaning=(
            "a message was delivered whose transaction was rolled back, never decided, or not "
            "yet decided"
        ),
        promise=DECIDED,
        example="rollback, and a consumer gets it",
    ),
    Anomaly(
        name="unresolved_transaction",
        title="unresolved transaction",
        meaning=(
            "left to the broker's question, which the producer would have answered with commit, "
            "and never seen; or answered with commit when a broker asked, and never seen; or not ended "
            "by its producer, and no broker had asked about it after three rounds at rest; "
            "or committed, and stored much later"
        ),
        promise=DECIDED,
        example="no broker asked the producer",
        by_damage=True,
    ),
    Anomaly(
        name="check_too_early",
        title="check too early",
        meaning="the broker asked for a transaction that was too young",
        promise=DECIDED,
        example="after 1 s, the time-out is 6 s",
        excuse=CLOCK_STEPPED,
    ),
    Anomaly(
        name="checked_too_often",
        title="too many checks",
        meaning=(
            "a broker asked for a transaction more often than configured, again after it was "
            "over, twice in one round, or although no producer had sent it or nothing of it was stored"
        ),
        promise=DECIDED,
        example="16 times, 15 are allowed",
    ),
    Anomaly(
        name="order_violated",
        title="violated order",
        meaning=(
            "an orderly group began a message before it had finished one that is before it in "
            "the queue"
        ),
        promise=KEYED,
        example="its listener failed for 5, and 6 is begun",
        test="tests/checkers/test_semantics.py",
        by_damage=True,
    ),
    Anomaly(
        name="key_moved",
        title="moved key",
        meaning="messages of one sharding key were acknowledged by different queues",
        promise=KEYED,
        example="order 7 is in queue 0 and in queue 3",
        test="tests/checkers/test_semantics.py",
        excuse="a fault may have changed the routes that producers saw",
    ),
    Anomaly(
        name="hot_key",
        title="hot key",
        meaning=(
            "one sharding key has most of the messages, and its queue makes them wait "
            "(informational)"
        ),
        promise=KEYED,
        example="9 of 10 messages are of one order",
        test="tests/checkers/test_semantics.py",
        hardened="informational",
        faithful="informational",
    ),
    Anomaly(
        name="wrong_answer",
        title="wrong reply",
        meaning="a request got the answer to another one",
        promise=REPLIED,
        example="asked 1, answered 2",
        test="tests/checkers/test_semantics.py",
    ),
    Anomaly(
        name="duplicate_reply",
        title="duplicate reply",
        meaning="a request ended with two answers",
        promise=REPLIED,
        example="asked once, answered at 1 s and at 2 s",
        test="tests/checkers/test_semantics.py",
    ),
    Anomaly(
        name="phantom_reply",
        title="phantom reply",
        meaning="an answer to a request that no listener had been given",
        promise=REPLIED,
        example="no listener replied, an answer came",
        test="tests/checkers/test_semantics.py",
    ),
    Anomaly(
        name="lost_reply",
        title="lost reply",
        meaning="a reply, at rest, that the waiting requester never got",
        promise=REPLIED,
        example="asked at 0 s, replied at 1 s, given up at 5 s without an answer",
        test="tests/checkers/test_semantics.py",
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
        meaning="a copy of what its forwarder had not been given",
        promise=FORWARDED,
        example="a copy of offset 1, and only offset 0 was given",
    ),
    Anomaly(
        name="wrong_refusal",
        title="wrong refusal",
        meaning="a broker refused an illegal send with another response code than RocketMQ gives",
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
        meaning="a broker refused a legal send, and nothing kept it from storing",
        promise=TAKEN,
        example="a send to a healthy broker, refused with 14 (SERVICE_NOT_AVAILABLE)",
        excuse="it was too busy, or a fault of one of its replicas was near",
    ),
)
