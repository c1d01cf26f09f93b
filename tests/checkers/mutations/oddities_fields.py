"""Legal oddities of what is missing in a run, and of what is more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.model.history import Op
from tests.checkers.mutations.draft import Draft
from tests.checkers.mutations.events import Delivery
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import MS, PLAIN, Run, S, Site, choose, without
from tests.checkers.mutations.oddities_sends import time_at
from tests.checkers.mutations.pick import pick_delivery, pick_sent


@KINDS.oddity("whatever has happened at one moment has happened in the order of the history")
def times_to_the_millisecond(run: Run, rng: Random, site: Site) -> Run | None:
    if (site == "fault") != bool(run.facts.faults):
        return None
    draft = Draft(run)
    for at, op in draft.ops():
        draft.replace(at, time_ns=op.time_ns // MS * MS)
    draft.observations = [
        {**seen, "time_ns": seen["time_ns"] // MS * MS} if "time_ns" in seen else seen
        for seen in draft.observations
    ]
    return draft.finish()


def _without_field(run: Run, site: Site, name: str) -> Run | None:
    if (site == "fault") != bool(run.facts.faults):
        return None
    draft = Draft(run)
    for op in run.ops:
        if op.f in ("send", "send_many") and name in op.value:
            draft.alter(op.index, **{name: None})
    return draft.finish()


@KINDS.oddity("`attempts` is reported if it is known")
def attempts_missing(run: Run, rng: Random, site: Site) -> Run | None:
    return _without_field(run, site, "attempts")


@KINDS.oddity("`physical_offset` is reported if it is known")
def physical_offsets_missing(run: Run, rng: Random, site: Site) -> Run | None:
    return _without_field(run, site, "physical_offset")


@KINDS.oddity("`status` is reported if it is known", workloads=without("bulk", "forwarded"))
def statuses_missing(run: Run, rng: Random, site: Site) -> Run | None:
    if (site == "fault") != bool(run.facts.faults):
        return None
    draft = Draft(run)
    for op in run.ops:
        if op.f == "send" and op.type == "ok":
            draft.alter(op.index, status=None)
    return draft.finish()


@KINDS.oddity("one send may lack its physical offset")
def one_physical_offset_missing(run: Run, rng: Random, site: Site) -> Run | None:
    sent = pick_sent(run, rng, site, lambda s: s.physical >= 0 and run.ops[s.at or 0].f == "send")
    if sent.at is None:
        return None
    draft = Draft(run)
    draft.alter(sent.at, physical_offset=None)
    return draft.finish()


@KINDS.oddity("a consumer need not say what it was configured with")
def open_says_nothing(run: Run, rng: Random, site: Site) -> Run:
    member = choose(rng, run.members, lambda m: run.is_at(site, m.begin_ns))
    draft = Draft(run)
    draft.replace(member.at, value={})
    return draft.finish()


@KINDS.oddity("an op need not say where its process runs")
def producers_without_nodes(run: Run, rng: Random, site: Site) -> Run | None:
    if (site == "fault") != bool(run.facts.faults):
        return None
    draft = Draft(run)
    for op in run.ops:
        if op.process < 90_000 and op.node is not None:
            draft.replace(op.index, node=None)
    return draft.finish()


@KINDS.oddity("a client may report more than is asked of it")
def more_fields(run: Run, rng: Random, site: Site) -> Run | None:
    sent = pick_sent(run, rng, site)
    if sent.at is None:
        return None
    draft = Draft(run)
    draft.alter(sent.at, note="of the client", trace_id=17)
    return draft.finish()


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
def physical_gap(run: Run, rng: Random, site: Site) -> Run | None:
    like = pick_delivery(run, rng, site)
    if any(_is_copied_elsewhere(run, d) for d in run.deliveries):
        return None
    broker, from_, by = like.broker, like.physical, 1000
    nodes = run.nodes_of_broker(broker)

    def later(physical: int) -> int:
        return physical + by if physical >= from_ else physical

    draft = Draft(run)
    for op in run.ops:
        if op.value.get("broker") != broker:
            continue
        fields: dict[str, Any] = {
            n: later(op.value[n])
            for n in ("physical_offset", "stored_at", "half_physical_offset")
            if n in op.value
        }
        for n in ("messages", "stretches"):
            if n in op.value and op.f in ("consume", "consume_many", "send_many"):
                if any(
                    row[2] < from_ <= row[2] + row[-2] * row[-1]
                    for row in op.value[n]
                    if n == "stretches"
                ):
                    return None  # the gap would be within a stretch
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
    return draft.finish()


@KINDS.oddity("a fault that was planned need not have had an effect")
def fault_that_never_bit(run: Run, rng: Random, site: Site) -> Run | None:
    time_ns = time_at(run, rng, site, 3 * S)
    if time_ns is None:
        return None
    node = rng.choice([node for nodes in run.facts.replica_sets.values() for node in nodes])
    value = {"fault_id": 999, "kind": "slow-disk", "targets": [node], "evidence": {"bitten": False}}
    draft = Draft(run)
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
    return draft.finish()


@KINDS.oddity("what was not observed is unknown")
def no_observations(run: Run, rng: Random, site: Site) -> Run | None:
    if (site == "fault") != bool(run.facts.faults):
        return None
    draft = Draft(run)
    draft.observations = []
    return draft.finish()


@KINDS.oddity("a node that could not be looked into leaves it open whether it had the message")
def acks_of_unobserved_nodes(run: Run, rng: Random, site: Site) -> Run:
    seen = choose(
        rng,
        [o for o in run.observations if o["kind"] == "ack_durability"],
        lambda o: run.is_at(site, o["time_ns"]),
    )
    draft = Draft(run)
    nodes = list(run.nodes_of_broker(seen["broker_name"]))
    draft.observe(
        lambda o: o is seen, lambda o: {**o, "durable_on": [], "cached_on": [], "unobserved": nodes}
    )
    return draft.finish()


@KINDS.oddity(
    "a brokers' index may be turned off: its messages are not found by their keys", workloads=PLAIN
)
def nothing_indexed(run: Run, rng: Random, site: Site) -> Run | None:
    if (site == "fault") != bool(run.facts.faults):
        return None
    draft = Draft(run)
    for op in run.ops:
        if op.f == "look_up":
            rows = [[*row[:3], False, *row[4:]] for row in op.value["messages"]]
            draft.alter(op.index, indexed=False, messages=rows)
    return draft.finish()


@KINDS.oddity("a history whose last line is torn is not known to its end")
def torn(run: Run, rng: Random, site: Site) -> Run | None:
    if (site == "fault") != bool(run.facts.faults):
        return None
    return replace(run, facts=replace(run.facts, torn=True))
