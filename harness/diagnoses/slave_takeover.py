"""A slave that takes over the reads of its lost master before it has all messages.

Source: reads from slaves in RocketMQ. With asynchronous replication the master acknowledges messages that its slave
lacks. While the master is away, consumers get the messages that the slave has; they get the rest when the master
returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from staticfire.checkers.guarantees.promises import NS_PER_S
from staticfire.checkers.guarantees.verdict import seconds
from staticfire.checkers.model.history import Op
from staticfire.harness.diagnoses.new_deliveries import first_deliveries
from staticfire.harness.recording.nemesis import FaultRecord
from staticfire.harness.results.run_result import RunResult


@dataclass(frozen=True, slots=True)
class Message:
    """A message that was acknowledged before the master went away."""

    key: str
    acked_ns: int
    queue: int
    queue_offset: int


def slave_takeover(result: RunResult) -> list[str]:
    """Return a paragraph for each time that a master with a slave was away and messages were missing meanwhile."""
    if result.campaign.replication != "async":
        return []
    consumed_ns = first_deliveries(result.ops)
    found = []
    for broker, record in _absences(result):
        assert record.fired_ns is not None
        assert record.healed_ns is not None
        before = _acked_before(result.ops, broker, record.fired_ns)
        late = [m for m in before if consumed_ns.get(m.key, record.fired_ns) > record.healed_ns]
        meanwhile = _deliveries(result.ops, broker, record.fired_ns, record.healed_ns)
        if late and meanwhile:
            found.append(_paragraph(broker, record, meanwhile, late, consumed_ns))
    return found


def _absences(result: RunResult) -> Iterable[tuple[str, FaultRecord]]:
    """Yield faults that stopped the master of a broker for a while and left its slaves running."""
    masters = {
        nodes[0]: name for name, nodes in result.facts.replica_sets.items() if len(nodes) > 1
    }
    for record in result.faults:
        if record.fired_ns is None or record.healed_ns is None or not record.bitten:
            continue
        targets = record.planned.targets
        for node in targets:
            name = masters.get(node)
            if name is not None and not set(result.facts.replica_sets[name][1:]) & set(targets):
                yield name, record


def _acked_before(ops: Sequence[Op], broker: str, end_ns: int) -> list[Message]:
    return [
        Message(op.value["key"], op.time_ns, op.value["queue"], op.value.get("queue_offset", -1))
        for op in ops
        if op.f == "send"
        and op.type == "ok"
        and op.time_ns < end_ns
        and op.value.get("broker") == broker
    ]


def _deliveries(ops: Sequence[Op], broker: str, start_ns: int, end_ns: int) -> int:
    return sum(
        len(op.value["messages"])
        for op in ops
        if op.f == "consume"
        and op.type == "ok"
        and start_ns <= op.time_ns <= end_ns
        and op.value["broker"] == broker
    )


def _paragraph(
    broker: str,
    record: FaultRecord,
    meanwhile: int,
    late: list[Message],
    consumed_ns: dict[str, int],
) -> str:
    assert record.fired_ns is not None
    assert record.healed_ns is not None
    first = late[0]
    last_ns = max(consumed_ns[message.key] for message in late)
    waited_s = (last_ns - min(message.acked_ns for message in late)) / NS_PER_S
    return (
        f"The master of {broker} was away from t={seconds(record.fired_ns)} to {seconds(record.healed_ns)} "
        f"({record.planned.kind}), and its slave took over the reads: {meanwhile} messages were consumed meanwhile. "
        f"{len(late)} that the master had acknowledged were missing there, {first.key} (queue {first.queue}, offset "
        f"{first.queue_offset}) first, and were delivered after its return, the last one {waited_s:.1f} s after the "
        "first of them was acknowledged. Late, not lost: with asynchronous replication a slave lags behind the "
        "acknowledged messages; synchronous replication closes the gap."
    )
