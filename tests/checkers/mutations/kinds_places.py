"""Wrongs of where messages lie: offsets of queues and of the log, order of sends."""

from __future__ import annotations

from random import Random

from tests.checkers.mutations.draft import Draft
from tests.checkers.mutations.events import Sent
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import PLAIN, Run, Site, choose, without
from tests.checkers.mutations.pick import neighbours, pick_delivery, pick_sent, two_groups


@KINDS.mutation(
    "misrouted",
    "a message that was acknowledged at one queue offset is delivered at another one",
    workloads=without("delayed", "transactional", "reservations"),
)
def acked_here_seen_there(run: Run, rng: Random, site: Site) -> Run:
    like = pick_delivery(run, rng, site, lambda d: run.sends[d.key].offset >= 0)
    draft = Draft(run)
    draft.set_field(like, 1, like.offset + rng.choice((2, 7, 100_000)))
    return draft.finish()


@KINDS.mutation(
    "inconsistent_physical_offset",
    "a physical offset that is delivered is not the one that was acknowledged",
)
def physical_differs_from_ack(run: Run, rng: Random, site: Site) -> Run:
    like = pick_delivery(run, rng, site, lambda d: run.sends[d.key].physical >= 0)
    draft = Draft(run)
    draft.set_field(like, 2, like.physical + rng.choice((1, 64)))
    return draft.finish()


@KINDS.mutation(
    "inconsistent_physical_offset",
    "two groups are given one message at two physical offsets",
    workloads=PLAIN,
)
def physical_differs_between_groups(run: Run, rng: Random, site: Site) -> Run | None:
    wide = two_groups(run)
    like = pick_delivery(wide, rng, site, lambda d: len(wide.by_key[d.key]) > 1)
    draft = Draft(wide)
    draft.set_field(like, 2, like.physical + 1)
    return draft.finish()


@KINDS.mutation(
    "nonmonotonic_physical_offset",
    "two messages of one broker lie at one physical offset, by acknowledgements and deliveries",
)
def two_at_one_physical(run: Run, rng: Random, site: Site) -> Run:
    pair = _pair(run, rng, site, lambda low, high: True)
    low, high = pair
    draft = Draft(run)
    draft.place_message(high, high.offset, low.physical)
    return draft.finish()


@KINDS.mutation(
    "nonmonotonic_physical_offset",
    "physical offsets go back where queue offsets go up, in acknowledgements and deliveries",
)
def physical_goes_back(run: Run, rng: Random, site: Site) -> Run:
    pair = _pair(run, rng, site, lambda low, high: True)
    low, high = pair
    draft = Draft(run)
    draft.place_message(low, low.offset, high.physical)
    draft.place_message(high, high.offset, low.physical)
    return draft.finish()


@KINDS.mutation(
    "inconsistent_offsets", "two messages are acknowledged at one queue offset, and delivered there"
)
def two_at_one_offset(run: Run, rng: Random, site: Site) -> Run:
    pair = _pair(run, rng, site, lambda low, high: True)
    low, high = pair
    draft = Draft(run)
    draft.place_message(high, low.offset, high.physical)
    return draft.finish()


@KINDS.mutation(
    "inconsistent_offsets", "two groups are given two messages at one queue offset", workloads=PLAIN
)
def groups_disagree_on_offset(run: Run, rng: Random, site: Site) -> Run | None:
    wide = two_groups(run)
    last = list(wide.facts.groups)[-1]
    like = pick_delivery(
        wide, rng, site, lambda d: d.group == last and wide.sends[d.key].type == "ok"
    )
    other = pick_sent(
        wide,
        rng,
        site,
        lambda s: s.key != like.key and s.queue == like.queue and s.topic == like.topic,
    )
    draft = Draft(wide)
    draft.set_field(like, 0, other.key)
    return draft.finish()


@KINDS.mutation(
    "nonmonotonic_send",
    "two sends of one process, one after the other, lie in the opposite order",
    workloads=without("delayed", "transactional", "reservations"),
)
def process_order_exchanged(run: Run, rng: Random, site: Site) -> Run | None:
    return _exchanged(
        run,
        rng,
        site,
        lambda low, high: low.process == high.process and low.time_ns < high.begin_ns,
    )


@KINDS.mutation(
    "realtime_order",
    "two sends of two processes, one after the other, lie in the opposite order",
    workloads=without("delayed", "transactional", "reservations"),
)
def realtime_order_exchanged(run: Run, rng: Random, site: Site) -> Run | None:
    return _exchanged(
        run,
        rng,
        site,
        lambda low, high: low.process != high.process and low.time_ns < high.begin_ns,
    )


@KINDS.mutation(
    "int_nonmonotonic_send",
    "a batch lies in reverse order; acknowledgements and deliveries agree",
    workloads=("batch", "bulk", "forwarded", "queue", "rebalance"),
)
def batch_reversed(run: Run, rng: Random, site: Site) -> Run | None:
    by_op: dict[tuple[int, int, str], list[Sent]] = {}
    for sent in run.sends.values():
        if sent.at is None or sent.offset < 0 or sent.type != "ok":
            continue
        op = run.ops[sent.at]
        if op.f == "send_many" or op.value.get("batch", 1) > 1:
            by_op.setdefault(
                (sent.process, sent.begin_ns, f"{sent.broker}{sent.queue}"), []
            ).append(sent)
    batch = choose(
        rng,
        [b for b in by_op.values() if len(b) > 1],
        lambda b: run.is_at(site, b[0].begin_ns, b[0].time_ns),
    )
    draft = Draft(run)
    batch.sort(key=lambda sent: sent.offset)
    for low, high in zip(batch[: len(batch) // 2], reversed(batch), strict=False):
        if not draft.exchange(low, high):
            return None
    return draft.finish()


@KINDS.mutation(
    "int_nonmonotonic_send",
    "two messages of a batch change their places",
    workloads=("batch", "bulk", "forwarded"),
)
def batch_pair_exchanged(run: Run, rng: Random, site: Site) -> Run | None:
    return _exchanged(
        run,
        rng,
        site,
        lambda low, high: (
            low.process == high.process
            and low.begin_ns == high.begin_ns
            and (low.begin == high.begin or "batch" in run.ops[low.begin].value)
        ),
    )


@KINDS.mutation(
    "torn_batch",
    "a message of another producer lies before the last one of a batch; acknowledgements and deliveries agree",
    workloads=("batch", "queue", "rebalance"),
)
def batch_interrupted(run: Run, rng: Random, site: Site) -> Run | None:
    def is_last_of_several(low: Sent, high: Sent) -> bool:
        before = run.ops[low.begin - 1] if low.begin else None
        return (
            low.process != high.process
            and run.ops[low.begin].value.get("batch", 1) > 1
            and before is not None
            and (before.f, before.type) == ("send", "invoke")
            and (before.process, before.time_ns) == (low.process, low.begin_ns)
        )

    return _exchanged(run, rng, site, is_last_of_several)


def _pair(run: Run, rng: Random, site: Site, fits: object) -> tuple[Sent, Sent]:
    assert callable(fits)
    pairs = neighbours(
        run, lambda low, high: low.type == high.type == "ok" and bool(fits(low, high))
    )
    return choose(rng, pairs, lambda pair: run.is_at(site, pair[0].begin_ns, pair[1].time_ns))


def _exchanged(run: Run, rng: Random, site: Site, fits: object) -> Run | None:
    for _ in range(20):
        pair, draft = _pair(run, rng, site, fits), Draft(run)
        if pair is not None and draft.exchange(*pair):
            return draft.finish()
    return None
