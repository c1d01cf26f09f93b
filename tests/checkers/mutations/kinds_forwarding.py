"""Wrongs of groups that send on what they are given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

from staticfire.checkers.model.history import Op
from tests.checkers.mutations.draft import Draft
from tests.checkers.mutations.events import later_key
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import Run, S, Site, choose
from tests.checkers.mutations.pick import pick_delivery


def _forward(run: Run, rng: Random, site: Site, fits: Callable[[Op], bool] = lambda _: True) -> Op:
    forwards = [op for op in run.ops if op.f == "forward"]
    return choose(rng, forwards, lambda op: run.is_at(site, op.time_ns) and fits(op))


def _places(op: Op) -> Iterator[tuple[str, str, int, int]]:
    """Where the originals lie of which a `forward` tells."""
    value = op.value
    for first, count in value["originals"]:
        for offset in range(first, first + count):
            yield value["topic"], value["broker"], value["queue"], offset


@KINDS.mutation(
    "not_forwarded",
    "a forwarder acknowledges a message and never says which copy it sent",
    workloads=("forwarded",),
)
def not_forwarded(run: Run, rng: Random, site: Site) -> Run:
    op = _forward(run, rng, site)
    draft = Draft(run)
    draft.drop(op.index)
    return draft.finish()


@KINDS.mutation(
    "not_forwarded",
    "a forwarder acknowledges a message a second before its only copy is stored",
    workloads=("forwarded",),
)
def forwarded_late(run: Run, rng: Random, site: Site) -> Run:
    told = Counter(place for op in run.ops if op.f == "forward" for place in _places(op))
    op = _forward(run, rng, site, lambda op: all(told[place] == 1 for place in _places(op)))
    draft = Draft(run)
    draft.move(op.index, op.time_ns + S)
    return draft.finish()


@KINDS.mutation(
    "phantom_copy", "a forwarder sends a copy of what it was not given", workloads=("forwarded",)
)
def copy_made_up(run: Run, rng: Random, site: Site) -> Run:
    op = _forward(run, rng, site)
    originals = [list(row) for row in op.value["originals"]]
    originals[-1][0] += 50_000
    draft = Draft(run)
    draft.alter(op.index, originals=originals)
    return draft.finish()


@KINDS.mutation(
    "phantom_copy",
    "the key of the first copy is one further than what was sent",
    workloads=("forwarded",),
)
def copy_has_other_key(run: Run, rng: Random, site: Site) -> Run:
    op = _forward(run, rng, site)
    draft = Draft(run)
    draft.alter(op.index, key=later_key(op.value["key"], 9_000_000))
    return draft.finish()


@KINDS.mutation(
    "lost", "a copy that its forwarder acknowledged is never delivered", workloads=("forwarded",)
)
def copy_never_delivered(run: Run, rng: Random, site: Site) -> Run:
    copies = pick_delivery(
        run,
        rng,
        site,
        lambda d: (
            d.group.endswith("-forwarded")
            and len(run.by_key[d.key]) == 1
            and run.sends[d.key].type == "ok"
        ),
    )
    draft = Draft(run)
    draft.drop_deliveries([copies])
    return draft.finish()
