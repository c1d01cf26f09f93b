"""Columns of whole queues for benchmarks: everything goes well, sends overlap, groups poll a few messages at a time."""

from __future__ import annotations

import numpy as np

from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.model.building.column_arrays import names_of
from staticfire.checkers.model.columns import (
    Columns,
    Commits,
    Ints,
    LogKey,
    MessageEvents,
    Names,
    Outcome,
)
from staticfire.checkers.model.timeline import Drain, QueueEnd, Timeline

TOPIC, BROKERS, PRODUCERS, BATCH = "orders", 4, 8, 2
COMMITS_EVERY = 1000  # deliveries
SEND_GAP_NS, LATENCY_NS = 1_000_000, 2_000_000


class MadeUpQueues:
    """A history of `sends` sends over `queues` queues, read by `groups` groups, queue by queue."""

    def __init__(self, *, sends: int, queues: int, groups: int, first_offset: int = 0) -> None:
        self.first_offset = first_offset
        self._sends, self._queues = sends, queues
        self.groups = [f"group-{number}" for number in range(groups)]
        brokers = [f"broker-{number}" for number in range(BROKERS)]
        self.keys = [LogKey(TOPIC, brokers[n % BROKERS], n // BROKERS) for n in range(queues)]
        self.facts = RunFacts(
            flush="sync",
            replication="sync",
            groups=dict.fromkeys(self.groups, (TOPIC,)),
            topics=(TOPIC,),
            replica_sets={broker: (broker, f"{broker}-slave") for broker in brokers},
        )
        self.end_ns = sends * SEND_GAP_NS + 10**12

    @property
    def names(self) -> Names:
        return names_of(
            other_keys=[],
            topics=[TOPIC],
            queues=self.keys,
            groups=self.groups,
            tags=[],
            sharding_keys=[],
        )

    def length(self, queue: int) -> int:
        return len(range(queue, self._sends, self._queues))

    def timeline(self) -> Timeline:
        ends = {key: self._end(queue) for queue, key in enumerate(self.keys)}
        drain = Drain(op_index=self.end_ns, time_ns=self.end_ns, complete=True, lag=0, ends=ends)
        return Timeline(
            commits={},
            ownership={},
            drains={(group, TOPIC): drain for group in self.groups},
            probes=[],
            opens=[],
            nodes={},
        )

    def _end(self, queue: int) -> QueueEnd:
        end = self.first_offset + self.length(queue)
        return QueueEnd(self.first_offset, end, end)

    def columns(self, queue: int) -> Columns:
        random = np.random.default_rng(queue)
        number = np.arange(queue, self._sends, self._queues)
        appended_ns = number * SEND_GAP_NS + LATENCY_NS
        offset = np.arange(len(number)) + self.first_offset
        return Columns(
            names=self.names,
            sends=self._sent(random, queue, number, appended_ns, offset),
            deliveries=_joined(
                [
                    self._got(random, queue, group, number, appended_ns, offset)
                    for group in range(len(self.groups))
                ]
            ),
            commits=self._committed(queue, appended_ns, offset),
        )

    def _sent(
        self, random: np.random.Generator, queue: int, number: Ints, at_ns: Ints, offset: Ints
    ) -> MessageEvents:
        invoke_ns = at_ns - random.integers(1, LATENCY_NS, len(number))
        end_ns = at_ns + random.integers(1, LATENCY_NS, len(number))
        sent = _message_events(
            queue, number, invoke_ns, end_ns, offset, process=number % PRODUCERS, group=-1
        )
        return sent.where(np.argsort(end_ns, kind="stable"))

    def _got(
        self,
        random: np.random.Generator,
        queue: int,
        group: int,
        number: Ints,
        at_ns: Ints,
        offset: Ints,
    ) -> MessageEvents:
        batch = np.arange(len(number)) // BATCH
        last_ns = at_ns[np.minimum(batch * BATCH + BATCH - 1, len(number) - 1)]
        invoke_ns = last_ns + LATENCY_NS + group
        end_ns = invoke_ns + random.integers(1, 1000, batch[-1] + 1)[batch] * 16 + group
        process = np.full(len(number), PRODUCERS + group)
        return _message_events(
            queue, number, invoke_ns, end_ns, offset, process=process, group=group
        )

    def _committed(self, queue: int, at_ns: Ints, offset: Ints) -> Commits:
        rows = np.arange(COMMITS_EVERY, len(offset), COMMITS_EVERY)
        groups = np.repeat(np.arange(len(self.groups)), len(rows))
        rows = np.tile(rows, len(self.groups))
        at = at_ns[rows] + 10 * LATENCY_NS
        order = np.argsort(at, kind="stable")
        return Commits(
            op_index=at[order],
            time_ns=at[order],
            process=PRODUCERS + groups[order],
            group=groups[order],
            log=np.full(len(rows), queue),
            offset=offset[rows][order],
        )


def _message_events(
    queue: int,
    number: Ints,
    invoke_ns: Ints,
    end_ns: Ints,
    offset: Ints,
    *,
    process: Ints,
    group: int,
) -> MessageEvents:
    rows = len(number)
    nothing = np.full(rows, -1)
    return MessageEvents(
        op_index=end_ns,
        invoke_index=invoke_ns,
        time_ns=end_ns,
        invoke_ns=invoke_ns,
        process=process,
        outcome=np.full(rows, Outcome.OK.value),
        message=(number % PRODUCERS) << 40 | number // PRODUCERS,
        topic=np.zeros(rows, np.int64),
        log=np.full(rows, queue),
        group=np.full(rows, group),
        queue_offset=offset,
        position=number * 300,
        tries=np.full(rows, 1 if group < 0 else 0),
        body_ok=np.ones(rows, np.bool_),
        sharding_key=nothing,
        tag=nothing,
        due_ns=nothing,
        transaction=np.zeros(rows, np.int64),
        check_ns=nothing,
        at_ns=nothing,
        invoke_at_ns=nothing,
        within_ns=nothing,
        message_id=nothing,
        properties=nothing,
        size=nothing,
        born_ms=nothing,
        stored_ms=nothing,
        origin=nothing,
    )


def _joined(parts: list[MessageEvents]) -> MessageEvents:
    names = MessageEvents.__dataclass_fields__
    together = MessageEvents(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    )
    return together.where(np.argsort(together.op_index, kind="stable"))
