"""Counts log events and send outcomes, recorded as one observation that feeds the coverage marks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from staticfire.checkers.model.history import Op
from staticfire.checkers.model.message_ranges import messages_in
from staticfire.checkers.op_kinds.catalogue import SENDS
from staticfire.checkers.op_kinds.producer import SEND_MANY
from staticfire.checkers.op_kinds.values import SendValue
from staticfire.harness.accounts import GUEST
from staticfire.harness.clients.port import ONE_WAY
from staticfire.harness.environments.environment import FIRST_CONSUMER_PROCESS
from staticfire.harness.generators.account_sends import ACCOUNT
from staticfire.harness.generators.illegal_sends import ILLEGAL
from staticfire.harness.generators.interpreter import ACL_REFUSED, TO_BE_REFUSED, WITHDRAWN
from staticfire.harness.generators.keyed_sends import LARGE_BYTES
from staticfire.harness.log_line import LogLine
from staticfire.harness.observers.probe import PROBE_PROCESS

IDLE_NS = 120_000_000_000  # brokers forget clients that are silent for longer
LONG_AFTER_NS = 45_000_000_000  # longer than the window of any excuse behind a fault
_REFUSED = re.compile(r"refused the message with code (\d+)")
# Events of which a detail is counted, too: event -> (detail, condition).
DETAILS: Mapping[str, Mapping[str, Callable[[Mapping[str, object]], bool]]] = {
    "store opened": {
        "unclean": lambda fields: fields["clean"] is False,
        "cut": lambda fields: bool(fields["cut_bytes"]),
        "bad checksum": lambda fields: bool(fields.get("bad_checksum")),
        "damaged": lambda fields: bool(fields.get("damaged")),
        "redispatched": lambda fields: bool(fields["redispatched"]),
    },
    "store file deleted": {
        "log": lambda fields: "/commitlog" in str(fields["path"]),
        "queue": lambda fields: "/consumequeue/" in str(fields["path"]),
    },
    "replication starts from another position": {
        "cut": lambda fields: str(fields["reason"]).endswith("was cut there"),
    },
    "peer was heard in catch-up": {"fetched": lambda fields: bool(fields["fetched_bytes"])},
}


def count_log(lines: Iterable[LogLine]) -> Counter[str]:
    """Count lines of a log by event, and by event and detail (`store opened: cut`)."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts[line.event] += 1
        for detail, holds in DETAILS.get(line.event, {}).items():
            counts[f"{line.event}: {detail}"] += holds(line.fields)
    return +counts


def _is_compressed(op: Op[SendValue]) -> bool:
    """Whether clients compress the body of this message; they do not compress batches."""
    is_alone = op.f == "send" and "batch" not in op.value
    return is_alone and op.value.get("size", 0) >= LARGE_BYTES[0]


def _idle_phases(ops: Sequence[Op]) -> int:
    """Count the times of minutes in which no send began or ended, and after which producers continued."""
    times = [op.time_ns for op in ops if op.f in SENDS and op.process != PROBE_PROCESS]
    return sum(after - before > IDLE_NS for before, after in pairwise(times))


def count_sends(ops: Sequence[Op]) -> Counter[str]:
    """Count sends by their special features."""
    counts: Counter[str] = Counter()
    faults_over_ns = max((op.time_ns for op in ops if "fault_id" in op.value), default=None)
    counts["idle phase"] = _idle_phases(ops)
    for op in ops:
        if op.f not in SENDS or op.type == "invoke":
            continue
        if op.type == "ok":
            if faults_over_ns is not None and op.time_ns > faults_over_ns + LONG_AFTER_NS:
                counts["long after faults"] += op.process != PROBE_PROCESS
            counts["batched"] += messages_in(op) * (op.f == SEND_MANY or "batch" in op.value)
            counts["delayed transaction"] += op.value.keys() >= {"transaction", "delay_level"}
            counts["signed accepted"] += op.value.get(ACCOUNT) == GUEST
            counts["async"] += op.value.get("async", False)
            counts["compressed"] += _is_compressed(op)
            counts["forwarded"] += messages_in(op) * (op.process >= FIRST_CONSUMER_PROCESS)
        elif op.error == ONE_WAY:
            counts["one way"] += 1
        elif ILLEGAL in op.value and ACCOUNT in op.value:
            counts["refused without a right"] += ACL_REFUSED in str(op.error)
        elif op.error is not None and op.error.startswith(WITHDRAWN):
            counts["refused as withdrawn"] += 1
        elif ILLEGAL in op.value:
            counts["illegal refused"] += not str(op.error).startswith(TO_BE_REFUSED)
        elif op.error is not None and (refused := _REFUSED.search(op.error)):
            counts[f"refused {refused[1]}"] += 1
    return +counts
