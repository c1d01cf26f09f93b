"""Wrongs of groups that send on what they are given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from staticfire.checkers.model.history import Op
from tests.checkers.mutations.events import later_key
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import S
from tests.checkers.mutations.planting import Planting


def _forward(draft: Planting, fits: Callable[[Op], bool] = lambda _: True) -> Op:
    forwards = [op for op in draft.run.ops if op.f == "forward"]
    return draft.choose(forwards, lambda op: draft.is_here(op.time_ns) and fits(op))


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
def not_forwarded(draft: Planting) -> None:
    op = _forward(draft)
    draft.drop(op.index)


@KINDS.mutation(
    "not_forwarded",
    "a forwarder acknowledges a message a second before its only copy is stored",
    workloads=("forwarded",),
)
def forwarded_late(draft: Planting) -> None:
    reported = Counter(place for op in draft.run.ops if op.f == "forward" for place in _places(op))
    op = _forward(draft, lambda op: all(reported[place] == 1 for place in _places(op)))
    draft.move(op.index, op.time_ns + S)


@KINDS.mutation(
    "phantom_copy", "a forwarder sends a copy of what it was not given", workloads=("forwarded",)
)
def copy_made_up(draft: Planting) -> None:
    op = _forward(draft)
    originals = [list(row) for row in op.value["originals"]]
    originals[-1][0] += 50_000
    draft.alter(op.index, originals=originals)


@KINDS.mutation(
    "phantom_copy",
    "the key of the first copy is one further than what was sent",
    workloads=("forwarded",),
)
def copy_has_other_key(draft: Planting) -> None:
    op = _forward(draft)
    draft.alter(op.index, key=later_key(op.value["key"], 9_000_000))


@KINDS.mutation(
    "lost", "a copy that its forwarder acknowledged is never delivered", workloads=("forwarded",)
)
def copy_never_delivered(draft: Planting) -> None:
    copies = draft.pick_delivery(
        lambda d: (
            d.group.endswith("-forwarded")
            and len(draft.run.by_key[d.key]) == 1
            and draft.run.sends[d.key].type == "ok"
        )
    )
    draft.drop_deliveries([copies])
