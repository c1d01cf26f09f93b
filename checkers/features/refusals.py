"""Refusals: a broker accepts every legal send that it can store, and refuses an illegal one with the right code.

**wrong_refusal**: a broker refused an illegal send with another code than `CODES` has for it. The code decides whether
a client tries another broker, and whether the message may be stored. A busy broker refuses before it reads the request
(`BUSY`), and so does one that cannot store messages or has not loaded its topics yet (`UNABLE`). `UNABLE` is allowed
only if a fault of the leader explains it, or a fault of a follower that the leader asks for messages when it starts.
Where requests wait only for the disk (`RunFacts.may_be_busy`), `BUSY` is allowed only if the leader stood still,
started, or had a slow disk. On a real machine, and with a small queue, brokers may be too busy at any time.

**needless_refusal**: a broker answered a legal send with a response code other than success, although it was not too
busy, and no such fault explains that it could not store the message. It does not matter whether it stored the message
anyway: after SYSTEM_ERROR that is not known. A broker may also refuse a send of another account while an administrator
changes the rights of the account, or at any time after a withdrawal of the right that it did not answer: the network
may deliver that request after the one that gives the right back. The rule also applies to a message that a consumer
sends back: the broker that holds it must make a copy, unless a fault explains that it could not, or that it had not
loaded its groups yet. A broker may also report that the copy is not flushed or replicated yet (FLUSH_DISK_TIMEOUT,
FLUSH_SLAVE_TIMEOUT). Only a fault that explains this status of a send (`send_status.py`) allows that, or a disk on
which a flush takes longer without any fault than the broker waits for it.

Cannot see: needless `BUSY` where brokers may be too busy, unless it comes again and again (`refused_at_rest`); illegal
sends that the client itself refused, which have no code (a client also refuses if a coordinator knows no route for the
topic); sends that a client reports without a code; all attempts of a send but the last.
`refused_at_rest` judges send-backs that no broker answered.

Source: Apache RocketMQ 4.9.8: AbstractSendMessageProcessor.msgCheck and consumerSendMsgBack,
TopicValidator.validateTopic, DefaultMessageStore.checkMessage, SendMessageProcessor.handlePutMessageResult,
PlainPermissionManager.validate.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from staticfire.checkers.engine.kernel import Checker, Context, no_rows
from staticfire.checkers.guarantees.fault_effects import RIGHTS
from staticfire.checkers.guarantees.fault_times import began_ns
from staticfire.checkers.guarantees.promises import NS_PER_S, Judgement, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict
from staticfire.checkers.model.columns import Columns
from staticfire.checkers.model.timeline import Refusal

SYSTEM_ERROR = 1
SYSTEM_BUSY = 2
MESSAGE_ILLEGAL = 13
SERVICE_NOT_AVAILABLE = 14
TOPIC_NOT_EXIST = 17
SUBSCRIPTION_GROUP_NOT_EXIST = 26

# Reason why a send is illegal -> the code with which a broker must refuse it.
CODES: Mapping[str, int] = MappingProxyType(
    {
        "body": MESSAGE_ILLEGAL,
        "properties": MESSAGE_ILLEGAL,
        "name of the topic": SYSTEM_ERROR,
        "unknown topic": TOPIC_NOT_EXIST,
        # RocketMQ treats an AclException in the hook of a request like any other exception.
        "signature": SYSTEM_ERROR,
        "no signature": SYSTEM_ERROR,
        "unknown account": SYSTEM_ERROR,
        "no right": SYSTEM_ERROR,
    }
)
BUSY = SYSTEM_BUSY
TOO_BUSY = "too_busy"  # row of the table of excuses
ACCOUNT_REFUSED = "account_refused"  # row of the table of excuses
UNABLE = frozenset({SYSTEM_ERROR, SERVICE_NOT_AVAILABLE, TOPIC_NOT_EXIST})
UNABLE_TO_TAKE_BACK = UNABLE | {SUBSCRIPTION_GROUP_NOT_EXIST}
UNFLUSHED, UNCONFIRMED = 10, 12
# Codes with which a broker reports that it made the copy, and that it is less safe than requested -> row of excuses.
UNSAFE: Mapping[int, str] = MappingProxyType(
    {
        UNFLUSHED: "spurious_weak_status FLUSH_DISK_TIMEOUT",
        UNCONFIRMED: "spurious_weak_status FLUSH_SLAVE_TIMEOUT",
    }
)


def check_refusals(_columns: Columns, context: Context) -> Verdict:
    """Judge the codes with which brokers refused sends and send-backs."""
    refused = [
        one for one in context.timeline.refused if one.illegal is None or one.illegal in CODES
    ]
    wrong = [one for one in refused if _is_wrong(context, one)]
    tally = Tally.of((_finding(context, one) for one in wrong), refusals=len(refused))
    violated = any(finding.judgement is Judgement.VIOLATION for finding in tally.findings)
    return Verdict(
        checker="refusals",
        valid=not violated,
        counts=tally.counts,
        findings=tally.findings,
    )


def _expected(one: Refusal) -> int | None:
    """Return the code with which RocketMQ refuses the send; None if it accepts the message."""
    return None if one.illegal is None else CODES[one.illegal]


def _is_wrong(context: Context, one: Refusal) -> bool:
    """Whether only a fault can explain the code."""
    if one.code == BUSY:
        return not context.facts.may_be_busy
    return one.code != _expected(one)


def _finding(context: Context, one: Refusal) -> Finding:
    if one.illegal is None:
        what = "a message that was sent back" if one.is_sent_back else "a legal send"
        anomaly, detail = "needless_refusal", f"{what}, refused with code {one.code}"
    else:
        anomaly = "wrong_refusal"
        detail = f"refused with code {one.code} because of its {one.illegal}; RocketMQ gives {_expected(one)}"
    excuse = _excuse(context, one, anomaly)
    return Finding(
        anomaly=anomaly,
        judgement=Judgement.ALLOWED if excuse else judge(context.facts.mode, anomaly),
        op_index=one.op_index,
        time_ns=one.time_ns,
        detail=f"{detail}; {excuse}" if excuse else detail,
        key=one.key,
        topic=one.topic,
        broker=one.broker,
    )


def _excuse(context: Context, one: Refusal, anomaly: str) -> str | None:
    """Return the fault because of which the broker could not store the message, as a text; None without one."""
    timings = context.facts.timings
    if one.is_sent_back and one.code in UNSAFE:
        anomaly = UNSAFE[one.code]
        waited_s = timings.flush_timeout_s if one.code == UNFLUSHED else timings.follower_timeout_s
        if timings.flush_wait_s > waited_s:
            return f"a flush takes {timings.flush_wait_s:g} s, and the broker waits {waited_s:g} s"
    elif one.code == BUSY:
        anomaly = TOO_BUSY
    elif one.code not in (UNABLE_TO_TAKE_BACK if one.is_sent_back else UNABLE):
        return None
    asked_s = timings.send_back_s if one.is_sent_back else timings.request_s
    since_ns = one.time_ns - round(asked_s * NS_PER_S)
    brokers = context.facts.replica_sets if one.broker is None else (one.broker,)
    found = [context.excuses.find(anomaly, since_ns, one.time_ns, broker) for broker in brokers]
    if one.is_of_account and one.code == SYSTEM_ERROR:  # the code of a refusal for want of a right
        if _may_lack_right(context, one):
            return "a withdrawal of its right had no answer, and may have been carried out late"
        found.append(context.excuses.find(ACCOUNT_REFUSED, since_ns, one.time_ns))
    return next((window.words for window in found if window is not None), None)


def _may_lack_right(context: Context, one: Refusal) -> bool:
    """Whether an administrator asked to withdraw the right of an account before, and had no answer."""
    return any(
        fault.unanswered and RIGHTS in fault.effects and began_ns(fault) <= one.time_ns
        for fault in context.facts.faults
    )


REFUSALS = Checker(
    name="refusals",
    anomalies=("wrong_refusal", "needless_refusal"),
    check=check_refusals,
    applies=lambda context: bool(context.timeline.refused),
    rows=no_rows,
)
