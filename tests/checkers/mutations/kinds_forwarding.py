"""Wrongs of groups that send on what they are given."""

from __future__ import annotations

from random import Random

from checkers.history import Op
from tests.checkers.mutations.draft import Draft
from tests.checkers.mutations.events import later_key
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import Run, S, Site, choose
from tests.checkers.mutations.pick import pick_delivery


def _forward(run: Run, rng: Random, site: Site) -> Op | None:
    return choose(
        rng, [op for op in run.ops if op.f == "forward"], lambda op: run.is_at(site, op.time_ns)
    )


@KINDS.mutation(
    "not_forwarded",
    "a forwarder acknowledges a message and never says which copy it sent",
    workloads=("forwarded",),
)
def not_forwarded(run: Run, rng: Random, site: Site) -> Run | None:
    op = _forward(run, rng, site)
    if op is None:
        return None
    draft = Draft(run)
    draft.drop(op.index)
    return draft.finish()


@KINDS.mutation(
    "not_forwarded",
    "a forwarder acknowledges a message a second before its copy is stored",
    workloads=("forwarded",),
)
def forwarded_late(run: Run, rng: Random, site: Site) -> Run | None:
    op = _forward(run, rng, site)
    if op is None:
        return None
    draft = Draft(run)
    draft.move(op.index, op.time_ns + S)
    return draft.finish()


@KINDS.mutation(
    "made_up_copy", "a forwarder sends a copy of what it was not given", workloads=("forwarded",)
)
def copy_made_up(run: Run, rng: Random, site: Site) -> Run | None:
    op = _forward(run, rng, site)
    if op is None:
        return None
    originals = [list(row) for row in op.value["originals"]]
    originals[-1][0] += 50_000
    draft = Draft(run)
    draft.alter(op.index, originals=originals)
    return draft.finish()


@KINDS.mutation(
    "made_up_copy",
    "the key of the first copy is one further than what was sent",
    workloads=("forwarded",),
)
def copy_has_other_key(run: Run, rng: Random, site: Site) -> Run | None:
    op = _forward(run, rng, site)
    if op is None:
        return None
    draft = Draft(run)
    draft.alter(op.index, key=later_key(op.value["key"], 9_000_000))
    return draft.finish()


@KINDS.mutation(
    "lost", "a copy that its forwarder acknowledged is never delivered", workloads=("forwarded",)
)
def copy_never_delivered(run: Run, rng: Random, site: Site) -> Run | None:
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
    if copies is None:
        return None
    draft = Draft(run)
    draft.drop_deliveries([copies])
    return draft.finish()
