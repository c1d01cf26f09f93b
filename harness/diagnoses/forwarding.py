"""Diagnoses the forwarding of a backlog: the rates at which it was forwarded and consumed.

Source: the remedy of RocketMQ for a backlog behind slow listeners. The number of queues limits how many members work at
once, so members that only forward move the backlog into a topic with more queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from staticfire.checkers.guarantees.promises import NS_PER_S
from staticfire.checkers.guarantees.verdict import seconds
from staticfire.checkers.model.history import Op
from staticfire.checkers.model.message_ranges import messages_in
from staticfire.checkers.op_kinds.catalogue import DELIVERIES
from staticfire.checkers.op_kinds.consumer import CONSUME_MANY
from staticfire.checkers.op_kinds.producer import SEND_MANY
from staticfire.harness.diagnoses.new_deliveries import NewDeliveries

KEPT_UP_SHARE = 10  # of the time: a group that ends at most this much after the forwarders kept up


class Sent(NamedTuple):
    """Copies that were acknowledged."""

    time_ns: int
    messages: int


class Taken(NamedTuple):
    """Copies that a member of the second group received for the first time."""

    time_ns: int
    messages: int
    queue: tuple[str, int]
    member: str


@dataclass(frozen=True, slots=True)
class Forwarding:
    """The messages that members of groups sent into one topic, in the order of the history."""

    topic: str
    sent: Sequence[Sent]
    taken: Sequence[Taken]


@dataclass(frozen=True, slots=True)
class Way:
    """The forwarding of one backlog, from its first delivery to the consumption of its last copy."""

    topic: str
    copies: int
    start_ns: int
    sent_ns: int  # the last copy was acknowledged
    end_ns: int
    queues: int
    members: int

    @property
    def sent_rate(self) -> int:
        """Return the rate of sent copies in messages a second."""
        return self.copies * NS_PER_S // max(1, self.sent_ns - self.start_ns)

    @property
    def rate(self) -> int:
        return self.copies * NS_PER_S // max(1, self.end_ns - self.start_ns)

    @property
    def kept_up(self) -> bool:
        """Whether the consumers of the copies were about as fast as their senders."""
        return (self.end_ns - self.sent_ns) * KEPT_UP_SHARE <= self.end_ns - self.start_ns


def forwardings(ops: Sequence[Op]) -> list[Forwarding]:
    """Return a forwarding for each topic into which consuming nodes sent."""
    consumers = {op.node for op in ops if op.f in DELIVERIES and op.type == "ok"}
    sent: dict[str, list[Sent]] = {}
    taken: dict[str, list[Taken]] = {}
    new = NewDeliveries()
    for op in ops:
        if op.type != "ok":
            continue
        if op.f == SEND_MANY and op.node in consumers:
            sent.setdefault(op.value["topic"], []).append(Sent(op.time_ns, messages_in(op)))
        elif op.f == CONSUME_MANY and op.value["topic"] in sent:
            queue = op.value["broker"], op.value["queue"]
            member = op.node or str(op.process)
            one = Taken(op.time_ns, new.count(op), queue, member)
            taken.setdefault(op.value["topic"], []).append(one)
    return [Forwarding(topic, found, taken.get(topic, ())) for topic, found in sent.items()]


def way_of(forwarding: Forwarding, start_ns: int, end_ns: int) -> Way | None:
    """Return the forwarding of a backlog in this time.

    None if nothing of the backlog was forwarded, or not all copies were consumed.
    """
    copies = [one for one in forwarding.sent if start_ns <= one.time_ns <= end_ns]
    if not copies:
        return None
    wanted = sum(one.messages for one in forwarding.sent if one.time_ns <= end_ns)
    queues, members = set(), set()
    for one in forwarding.taken:
        wanted -= one.messages
        if one.time_ns >= start_ns:
            queues.add(one.queue)
            members.add(one.member)
        if wanted <= 0:
            return Way(
                topic=forwarding.topic,
                copies=sum(sent.messages for sent in copies),
                start_ns=start_ns,
                sent_ns=copies[-1].time_ns,
                end_ns=max(one.time_ns, copies[-1].time_ns),
                queues=len(queues),
                members=len(members),
            )
    return None


def sentences(way: Way, direct_rate: int | None) -> list[str]:
    """Describe the result of forwarding; `direct_rate` is the former rate of the group alone, in messages a second."""
    said = [
        f"These members only forwarded it to {way.topic}: {way.copies} copies, {way.sent_rate} a second, "
        f"consumed there out of {way.queues} queues by {way.members} members. The rate from the first message to the "
        f"last copy (t={seconds(way.end_ns)}) was {way.rate} a second."
    ]
    if direct_rate is None:
        return said
    if way.rate > direct_rate:
        factor = way.rate / max(1, direct_rate)
        return [
            *said,
            f"Forwarding made it {factor:.1f} times as fast as the group alone was before.",
        ]
    who = "the forwarders" if way.kept_up else "the consumers of the copies"
    return [
        *said,
        f"Forwarding was no help here: the group alone had worked off {direct_rate} a second. Every message is pulled "
        f"twice and sent once more, and {who} limited the rate. Forwarding pays where listeners are slow. It does not "
        "pay where pulls out of the same queues, or processors that all nodes share, are the limit.",
    ]
