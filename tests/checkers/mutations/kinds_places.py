"""Wrongs of where messages lie: offsets of queues and of the log, order of sends."""

from __future__ import annotations

from tests.checkers.mutations.events import Sent
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import PLAIN, NoSuchSite, without
from tests.checkers.mutations.pick import neighbours
from tests.checkers.mutations.planting import Planting


@KINDS.mutation(
    "misrouted",
    "a message that was acknowledged at one queue offset is delivered at another one",
    workloads=without("delayed", "transactional", "reservations"),
)
def acked_here_seen_there(draft: Planting) -> None:
    like = draft.pick_delivery(lambda d: draft.run.sends[d.key].offset >= 0)
    draft.set_field(like, 1, like.offset + draft.rng.choice((2, 7, 100_000)))


@KINDS.mutation(
    "inconsistent_physical_offset",
    "a physical offset that is delivered is not the one that was acknowledged",
)
def physical_differs_from_ack(draft: Planting) -> None:
    like = draft.pick_delivery(lambda d: draft.run.sends[d.key].physical >= 0)
    draft.set_field(like, 2, like.physical + draft.rng.choice((1, 64)))


@KINDS.mutation(
    "inconsistent_physical_offset",
    "two groups are given one message at two physical offsets",
    workloads=PLAIN,
)
def physical_differs_between_groups(draft: Planting) -> None:
    wide = draft.widen()
    like = draft.pick_delivery(lambda d: len(wide.by_key[d.key]) > 1)
    draft.set_field(like, 2, like.physical + 1)


@KINDS.mutation(
    "nonmonotonic_physical_offset",
    "two messages of one broker lie at one physical offset, by acknowledgements and deliveries",
)
def two_at_one_physical(draft: Planting) -> None:
    pair = _pair(draft, lambda low, high: True)
    low, high = pair
    draft.place_message(high, high.offset, low.physical)


@KINDS.mutation(
    "nonmonotonic_physical_offset",
    "physical offsets go back where queue offsets go up, in acknowledgements and deliveries",
)
def physical_goes_back(draft: Planting) -> None:
    pair = _pair(draft, lambda low, high: True)
    low, high = pair
    draft.place_message(low, low.offset, high.physical)
    draft.place_message(high, high.offset, low.physical)


@KINDS.mutation(
    "inconsistent_offsets", "two messages are acknowledged at one queue offset, and delivered there"
)
def two_at_one_offset(draft: Planting) -> None:
    pair = _pair(draft, lambda low, high: True)
    low, high = pair
    draft.place_message(high, low.offset, high.physical)


@KINDS.mutation(
    "inconsistent_offsets", "two groups are given two messages at one queue offset", workloads=PLAIN
)
def groups_disagree_on_offset(draft: Planting) -> None:
    wide = draft.widen()
    last = list(wide.facts.groups)[-1]
    like = draft.pick_delivery(lambda d: d.group == last and wide.sends[d.key].type == "ok")
    other = draft.pick_sent(
        lambda s: s.key != like.key and s.queue == like.queue and s.topic == like.topic
    )
    draft.set_field(like, 0, other.key)


@KINDS.mutation(
    "nonmonotonic_send",
    "two sends of one process, one after the other, lie in the opposite order",
    workloads=without("delayed", "transactional", "reservations"),
)
def process_order_exchanged(draft: Planting) -> None:
    _exchanged(draft, lambda low, high: low.process == high.process and low.time_ns < high.begin_ns)


@KINDS.mutation(
    "realtime_order",
    "two sends of two processes, one after the other, lie in the opposite order",
    workloads=without("delayed", "transactional", "reservations"),
)
def realtime_order_exchanged(draft: Planting) -> None:
    _exchanged(draft, lambda low, high: low.process != high.process and low.time_ns < high.begin_ns)


@KINDS.mutation(
    "int_nonmonotonic_send",
    "a batch lies in reverse order; acknowledgements and deliveries agree",
    workloads=("batch", "bulk", "forwarded", "queue", "rebalance"),
)
def batch_reversed(draft: Planting) -> None:
    by_op: dict[tuple[int, int, str], list[Sent]] = {}
    for sent in draft.run.sends.values():
        if sent.at is None or sent.offset < 0 or sent.type != "ok":
            continue
        op = draft.run.ops[sent.at]
        if op.f == "send_many" or op.value.get("batch", 1) > 1:
            by_op.setdefault(
                (sent.process, sent.begin_ns, f"{sent.broker}{sent.queue}"), []
            ).append(sent)
    batch = draft.choose(
        [b for b in by_op.values() if len(b) > 1],
        lambda b: draft.is_here(b[0].begin_ns, b[0].time_ns),
    )
    batch.sort(key=lambda sent: sent.offset)
    for low, high in zip(batch[: len(batch) // 2], reversed(batch), strict=False):
        if not draft.exchange(low, high):
            raise NoSuchSite


@KINDS.mutation(
    "int_nonmonotonic_send",
    "two messages of a batch change their places",
    workloads=("batch", "bulk", "forwarded"),
)
def batch_pair_exchanged(draft: Planting) -> None:
    _exchanged(
        draft,
        lambda low, high: (
            low.process == high.process
            and low.begin_ns == high.begin_ns
            and (low.begin == high.begin or "batch" in draft.run.ops[low.begin].value)
        ),
    )


@KINDS.mutation(
    "torn_batch",
    "a message of another producer lies before the last one of a batch; acknowledgements and deliveries agree",
    workloads=("batch", "queue", "rebalance"),
)
def batch_interrupted(draft: Planting) -> None:
    def is_last_of_several(low: Sent, high: Sent) -> bool:
        before = draft.run.ops[low.begin - 1] if low.begin else None
        return (
            low.process != high.process
            and draft.run.ops[low.begin].value.get("batch", 1) > 1
            and before is not None
            and (before.f, before.type) == ("send", "invoke")
            and (before.process, before.time_ns) == (low.process, low.begin_ns)
        )

    _exchanged(draft, is_last_of_several)


def _pair(draft: Planting, fits: object) -> tuple[Sent, Sent]:
    assert callable(fits)
    pairs = neighbours(
        draft.run, lambda low, high: low.type == high.type == "ok" and bool(fits(low, high))
    )
    return draft.choose(pairs, lambda pair: draft.is_here(pair[0].begin_ns, pair[1].time_ns))


def _exchanged(draft: Planting, fits: object) -> None:
    for _ in range(20):
        if draft.exchange(*_pair(draft, fits)):
            return
    raise NoSuchSite
