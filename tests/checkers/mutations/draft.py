"""A copy of a run that is being changed: what is edited stays a history, dense and in the order of time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.model.history import Op
from tests.checkers.mutations.events import (
    BARE,
    Delivery,
    Sent,
    messages_of,
    places_of,
    with_messages,
    with_places,
)
from tests.checkers.mutations.model import Run

_LATE = 1 << 40  # positions of ops that were moved or inserted come after those of the same time


class Draft:
    """Edits a run. Indices are those of the run that it began with."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._ops: dict[int, Op] = {op.index: op for op in run.ops}
        self._order: dict[int, float] = {}
        self._next = _LATE
        self.observations: list[Mapping[str, Any]] = list(run.observations)
        self.facts: RunFacts = run.facts

    def __getitem__(self, at: int) -> Op:
        return self._ops[at]

    def __contains__(self, at: int) -> bool:
        return at in self._ops

    def ops(self) -> list[tuple[int, Op]]:
        """What is there now, by the indices of the draft, in the order of time."""
        return sorted(
            self._ops.items(), key=lambda item: (item[1].time_ns, self._order.get(item[0], item[0]))
        )

    def replace(self, at: int, **fields: Any) -> None:
        self._ops[at] = replace(self._ops[at], **fields)

    def alter(self, at: int, **value: Any) -> None:
        """Change fields of the value; None takes one away."""
        merged = {**self._ops[at].value, **value}
        self.replace(at, value={name: item for name, item in merged.items() if item is not None})

    def drop(self, at: int) -> None:
        del self._ops[at]

    def drop_ops(self, concerns: Callable[[Op], bool]) -> None:
        for at, op in list(self._ops.items()):
            if concerns(op):
                self.drop(at)

    def insert(self, op: Op, after: int | None = None) -> int:
        """Add an op at its time; behind all others of that time, or right behind the op `after`."""
        at = self._next
        self._next += 1
        self._ops[at] = op
        if after is not None:
            self._order[at] = self._order.get(after, after) + 0.5
        return at

    def move(self, at: int, time_ns: int) -> None:
        """Let an op happen at another time, behind what is there."""
        self.replace(at, time_ns=time_ns)
        self._order[at] = self._next
        self._next += 1

    def messages(self, delivery: Delivery) -> list[list[Any]]:
        return messages_of(self._ops[delivery.begin].value)

    def set_messages(self, delivery: Delivery, messages: Sequence[Sequence[Any]]) -> None:
        """Change what a delivery brought, in its invocation and its completion."""
        for at in {delivery.begin, delivery.at}:
            if not messages:
                self.drop(at)
                continue
            value = self._ops[at].value
            # The contents of messages belong to the invocation.
            bare = at != delivery.begin
            self.replace(
                at, value=with_messages(value, [m[:BARE] for m in messages] if bare else messages)
            )

    def drop_deliveries(self, deliveries: Iterable[Delivery]) -> None:
        """Take messages out of their deliveries; a delivery of nothing is none."""
        by_op: dict[int, list[Delivery]] = {}
        for delivery in deliveries:
            by_op.setdefault(delivery.at, []).append(delivery)
        for several in by_op.values():
            gone = {delivery.slot for delivery in several}
            kept = [m for slot, m in enumerate(self.messages(several[0])) if slot not in gone]
            self.set_messages(several[0], kept)

    def set_field(self, delivery: Delivery, place: int, item: Any) -> None:
        """Change one field of one message of a delivery."""
        messages = self.messages(delivery)
        messages[delivery.slot][place] = item
        if place == 0:
            del messages[delivery.slot][BARE:]  # the contents were those of the other message
        self.set_messages(delivery, messages)

    def deliver(
        self,
        like: Delivery,
        time_ns: int,
        messages: Sequence[Sequence[Any]],
        *,
        process: int | None = None,
        node: str | None = None,
        **value: Any,
    ) -> None:
        """Insert a successful delivery that is like another one."""
        op = self.run.ops[like.at]
        changed = with_messages({**op.value, **value}, messages)
        for type_ in ("invoke", "ok"):
            self.insert(
                Op(
                    index=0,
                    time_ns=time_ns,
                    process=op.process if process is None else process,
                    type=type_,
                    f=op.f,
                    value=changed,
                    node=op.node if node is None else node,
                )
            )

    def event(
        self, time_ns: int, process: int, f: str, node: str | None = None, **value: Any
    ) -> int:
        """Insert an op that only completes, such as an assignment or a commit."""
        return self.insert(
            Op(index=0, time_ns=time_ns, process=process, type="ok", f=f, value=value, node=node)
        )

    def move_deliveries(self, deliveries: Sequence[Delivery], time_ns: int) -> None:
        """Let whole deliveries happen at another time, in their order."""
        calls = sorted(
            {(delivery.begin, delivery.at) for delivery in deliveries}, key=lambda call: call[1]
        )
        for n, (begin, at) in enumerate(calls):
            for index in dict.fromkeys((begin, at)):
                self.move(index, time_ns + n * 1000)

    def place_message(self, sent: Sent, offset: int, physical: int) -> None:
        """Let a message lie elsewhere in its queue: acknowledgement, deliveries, look-ups and disks agree."""
        self._acknowledge(sent, offset, physical)
        for delivery in self.run.by_key.get(sent.key, ()):
            if delivery.topic == sent.topic:
                messages = self.messages(delivery)
                messages[delivery.slot][1:3] = [offset, physical]
                self.set_messages(delivery, messages)

    def _acknowledge(self, sent: Sent, offset: int, physical: int) -> None:
        if sent.at is not None and sent.offset >= 0:
            op = self._ops[sent.at]
            if op.f == "send":
                self.alter(sent.at, queue_offset=offset, physical_offset=physical)
            else:
                places = places_of(op.value)
                places[sent.slot][1:] = [offset, physical]
                self.replace(sent.at, value=with_places(op.value, places))
        self.look_up(sent.key, lambda row: [*row[:2], offset, *row[3:]])
        self.observe_ack(
            sent.key,
            lambda o: (
                {**o, "end_offset": o["end_offset"] + physical - sent.physical}
                if o["end_offset"]
                else o
            ),
        )

    def exchange(self, low: Sent, high: Sent) -> bool:
        """Let two messages of a queue lie each in the place of the other, and be delivered in that order.

        False, with nothing changed, where a delivery would come before its send.
        """
        pairs = self._delivered_in_turn(low, high)
        if pairs is None:
            return False
        for first, second in pairs:
            one, other = self.messages(first)[first.slot], self.messages(second)[second.slot]
            there = [other[0], *one[1:3], *other[3:]], [one[0], *other[1:3], *one[3:]]
            if first.begin_ns >= high.begin_ns:
                for delivery, message in zip((first, second), there, strict=True):
                    messages = self.messages(delivery)
                    messages[delivery.slot] = message
                    self.set_messages(delivery, messages)
            else:  # the later message was not sent yet, so both come with its delivery
                messages = self.messages(second)
                messages[second.slot : second.slot + 1] = there
                self.set_messages(second, messages)
                self.set_messages(first, [])
                self.clip_commits(
                    first.group, first.place, low.offset, first.begin_ns, second.time_ns
                )
        self._acknowledge(low, high.offset, high.physical)
        self._acknowledge(high, low.offset, low.physical)
        return True

    def _delivered_in_turn(self, low: Sent, high: Sent) -> list[tuple[Delivery, Delivery]] | None:
        """For each delivery of one message the delivery of the other one, if that is how they came."""
        ones, others = (
            [d for d in self.run.by_key.get(sent.key, ()) if d.topic == sent.topic]
            for sent in (low, high)
        )
        if len(ones) != len(others):
            return None
        pairs = []
        for first in ones:
            second = next(
                (d for d in others if (d.process, d.group) == (first.process, first.group)), None
            )
            early = first.begin_ns < high.begin_ns
            if (
                second is None
                or second.begin_ns < first.begin_ns
                or (early and not (first.alone and second.alone))
            ):
                return None
            pairs.append((first, second))
        return pairs

    def look_up(self, key: str, change: Callable[[list[Any]], list[Any] | None]) -> None:
        """Change what looking a message up has found; None takes the row away."""
        for at, op in list(self._ops.items()):
            if op.f == "look_up" and any(row[0] == key for row in op.value.get("messages", ())):
                rows = (change(row) if row[0] == key else row for row in op.value["messages"])
                self.alter(at, messages=[row for row in rows if row is not None])

    def observe(
        self,
        concerns: Callable[[Mapping[str, Any]], bool],
        change: Callable[[Mapping[str, Any]], Mapping[str, Any] | None],
    ) -> None:
        """Change observations; None takes one away."""
        changed = (change(seen) if concerns(seen) else seen for seen in self.observations)
        self.observations = [seen for seen in changed if seen is not None]

    def observe_ack(
        self, key: str, change: Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
    ) -> None:
        """Change what was observed of a message when its send was acknowledged."""
        self.observe(lambda o: o["kind"] == "ack_durability" and o["key"] == key, change)

    def clip_commits(
        self,
        group: str,
        place: tuple[str, str, int],
        offset: int,
        begin_ns: int,
        end_ns: int,
    ) -> None:
        """Between two times no commit of this queue goes beyond the offset; what was held back follows at the end."""
        topic, broker, queue = place
        highest: tuple[int, Op] | None = None
        for at, op in self.ops():
            if op.f != "commit" or not begin_ns <= op.time_ns <= end_ns:
                continue
            if (op.value["group"], op.value["topic"]) != (group, topic):
                continue
            rows = [list(row) for row in op.value["offsets"]]
            for row in rows:
                if row[:2] == [broker, queue] and row[2] > offset:
                    if highest is None or row[2] > highest[0]:
                        highest = (row[2], op)
                    row[2] = offset
            self.alter(at, offsets=rows)
        if highest is not None:
            self.event(
                end_ns + 1_000_000,
                highest[1].process,
                "commit",
                highest[1].node,
                group=group,
                topic=topic,
                offsets=[[broker, queue, highest[0]]],
            )

    def shift_after(self, time_ns: int, by_ns: int) -> None:
        """Let everything after a time happen later: ops, observations and faults."""

        def later(when: int) -> int:
            return when + by_ns if when > time_ns else when

        def later_if_any(when: int | None) -> int | None:
            return None if when is None else later(when)

        for at, op in self._ops.items():
            self._ops[at] = replace(op, time_ns=later(op.time_ns))
        self.observations = [
            {**seen, "time_ns": later(seen["time_ns"])} if "time_ns" in seen else seen
            for seen in self.observations
        ]
        self.facts = replace(
            self.facts,
            faults=tuple(
                replace(
                    fault,
                    fired_ns=later_if_any(fault.fired_ns),
                    bitten_ns=later_if_any(fault.bitten_ns),
                    healed_ns=later_if_any(fault.healed_ns),
                )
                for fault in self.facts.faults
            ),
        )

    def finish(self) -> Run:
        """The run as it is now."""
        ops = [at_index(op, index) for index, (_, op) in enumerate(self.ops())]
        return replace(self.run, ops=ops, observations=self.observations, facts=self.facts)


def at_index(op: Op, index: int) -> Op:
    """The op at another place of the history."""
    if op.index == index:
        return op
    moved = object.__new__(Op)  # copy.copy takes three times as long, dataclasses.replace twice
    for name in Op.__slots__:
        object.__setattr__(moved, name, getattr(op, name))
    object.__setattr__(moved, "index", index)
    return moved
