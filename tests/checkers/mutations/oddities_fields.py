"""Legal oddities of what is missing in a run, and of what is more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.model.history import Op
from tests.checkers.mutations.events import Delivery
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import MS, PLAIN, NoSuchSite, Run, S, without
from tests.checkers.mutations.oddities_sends import time_at
from tests.checkers.mutations.planting import Planting


@KINDS.oddity("whatever has happened at one moment has happened in the order of the history")
def times_to_the_millisecond(draft: Planting) -> None:
    if not draft.is_of_site():
        raise NoSuchSite
    for at, op in draft.ops():
        draft.replace(at, time_ns=op.time_ns // MS * MS)
    draft.observations = [
        {**seen, "time_ns": seen["time_ns"] // MS * MS} if "time_ns" in seen else seen
        for seen in draft.observations
    ]


def _without_field(draft: Planting, name: str) -> None:
    if not draft.is_of_site():
        raise NoSuchSite
    for op in draft.run.ops:
        if op.f in ("send", "send_many") and name in op.value:
            draft.alter(op.index, **{name: None})


@KINDS.oddity("`attempts` is reported if it is known")
def attempts_missing(draft: Planting) -> None:
    _without_field(draft, "attempts")


@KINDS.oddity("`physical_offset` is reported if it is known")
def physical_offsets_missing(draft: Planting) -> None:
    _without_field(draft, "physical_offset")


@KINDS.oddity("`status` is reported if it is known", workloads=without("bulk", "forwarded"))
def statuses_missing(draft: Planting) -> None:
    if not draft.is_of_site():
        raise NoSuchSite
    for op in draft.run.ops:
        if op.f == "send" and op.type == "ok":
            draft.alter(op.index, status=None)


@KINDS.oddity("one send may lack its physical offset")
def one_physical_offset_missing(draft: Planting) -> None:
    sent = draft.pick_sent(lambda s: s.physical >= 0 and draft.run.ops[s.at or 0].f == "send")
    if sent.at is None:
        raise NoSuchSite
    draft.alter(sent.at, physical_offset=None)


@KINDS.oddity("a consumer need not say what it was configured with")
def open_says_nothing(draft: Planting) -> None:
    member = draft.choose(draft.run.members, lambda m: draft.is_here(m.begin_ns))
    draft.replace(member.at, value={})


@KINDS.oddity("an op need not say where its process runs")
def producers_without_nodes(draft: Planting) -> None:
    if not draft.is_of_site():
        raise NoSuchSite
    for op in draft.run.ops:
        if op.process < 90_000 and op.node is not None:
            draft.replace(op.index, node=None)


@KINDS.oddity("a client may report more than is asked of it")
def more_fields(draft: Planting) -> None:
    sent = draft.pick_sent()
    if sent.at is None:
        raise NoSuchSite
    draft.alter(sent.at, note="of the client", trace_id=17)


def _is_copied_elsewhere(run: Run, d: Delivery) -> bool:
    """Whether a copy lies on another broker than its original, whose place it names."""
    sent = run.sends.get(d.key)
    return d.topic.startswith("%") and (sent is None or sent.broker != d.broker)


LOG_BYTES_MAX = 1 << 40  # of a run; a larger origin is a digest


def _with_origin(rest: list[Any], later: Callable[[int], int]) -> list[Any]:
    """What follows a message's place; its contents name the place of the original of a copy, or a digest of its id."""
    if (
        len(rest) > 2
        and isinstance(rest[2], list | tuple)
        and rest[2][-1] is not None
        and rest[2][-1] < LOG_BYTES_MAX
    ):
        return [*rest[:2], [*rest[2][:-1], later(rest[2][-1])]]
    return rest


@KINDS.oddity("other topics of a broker lie in the same log")
def physical_gap(draft: Planting) -> None:
    run = draft.run
    like = draft.pick_delivery()
    if any(_is_copied_elsewhere(run, d) for d in run.deliveries):
        raise NoSuchSite
    broker, from_, by = like.broker, like.physical, 1000
    nodes = run.nodes_of_broker(broker)

    def later(physical: int) -> int:
        return physical + by if physical >= from_ else physical

    for op in run.ops:
        if op.value.get("broker") != broker:
            continue
        fields: dict[str, Any] = {
            n: later(op.value[n])
            for n in ("physical_offset", "stored_at", "half_physical_offset")
            if n in op.value
        }
        for n in ("messages", "ranges"):
            if n in op.value and op.f in ("consume", "consume_many", "send_many"):
                if any(
                    row[2] < from_ <= row[2] + row[-2] * row[-1]
                    for row in op.value[n]
                    if n == "ranges"
                ):
                    raise NoSuchSite  # the gap would be within a range
                fields[n] = [
                    [row[0], row[1], later(row[2]), *_with_origin(row[3:], later)]
                    for row in op.value[n]
                ]
        if fields:
            draft.alter(op.index, **fields)
    draft.observe(
        lambda o: (
            o["kind"] == "ack_durability" and o["broker_name"] == broker and bool(o["end_offset"])
        ),
        lambda o: {**o, "end_offset": o["end_offset"] + (by if o["end_offset"] > from_ else 0)},
    )
    draft.observe(
        lambda o: o["kind"] == "recovery" and o["node"] in nodes and o["end_offset"] > from_,
        lambda o: {**o, "end_offset": o["end_offset"] + by},
    )


@KINDS.oddity("a fault that was planned need not have had an effect")
def fault_that_never_bit(draft: Planting) -> None:
    time_ns = time_at(draft, 3 * S)
    if time_ns is None:
        raise NoSuchSite
    node = draft.rng.choice(
        [node for nodes in draft.run.facts.replica_sets.values() for node in nodes]
    )
    value = {"fault_id": 999, "kind": "slow-disk", "targets": [node], "evidence": {"bitten": False}}
    for f, when, phase in (
        ("start_slow-disk", time_ns, "fired"),
        ("stop_slow-disk", time_ns + 2 * S, "healed"),
    ):
        draft.insert(
            Op(index=0, time_ns=when, process=-1, type="info", f=f, value={**value, "phase": phase})
        )
    fault = FaultFacts(
        fault_id="999",
        kind="slow_disk",
        targets=(node,),
        fired_ns=time_ns,
        bitten_ns=None,
        healed_ns=time_ns + 2 * S,
    )
    draft.facts = replace(draft.facts, faults=(*draft.facts.faults, fault))


@KINDS.oddity("what was not observed is unknown")
def no_observations(draft: Planting) -> None:
    if not draft.is_of_site():
        raise NoSuchSite
    draft.observations = []


@KINDS.oddity("a node that could not be looked into leaves it open whether it had the message")
def acks_of_unobserved_nodes(draft: Planting) -> None:
    seen = draft.choose(
        [o for o in draft.run.observations if o["kind"] == "ack_durability"],
        lambda o: draft.is_here(o["time_ns"]),
    )
    nodes = list(draft.run.nodes_of_broker(seen["broker_name"]))
    draft.observe(
        lambda o: o is seen, lambda o: {**o, "durable_on": [], "cached_on": [], "unobserved": nodes}
    )


@KINDS.oddity(
    "a brokers' index may be turned off: its messages are not found by their keys", workloads=PLAIN
)
def nothing_indexed(draft: Planting) -> None:
    if not draft.is_of_site():
        raise NoSuchSite
    for op in draft.run.ops:
        if op.f == "look_up":
            rows = [[*row[:3], False, *row[4:]] for row in op.value["messages"]]
            draft.alter(op.index, indexed=False, messages=rows)


@KINDS.oddity("a history whose last line is torn is not known to its end")
def torn(draft: Planting) -> None:
    if not draft.is_of_site():
        raise NoSuchSite
    draft.facts = replace(draft.facts, torn=True)
