"""Wrongs of send-backs: brokers that decline to make the copy for a retry, or do not answer."""

from __future__ import annotations

from typing import Any

from staticfire.checkers.model.history import Op
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import NoSuchSite, Run, S
from tests.checkers.mutations.planting import Planting

ANSWERED_S = 10  # a report follows the request within so long
AROUND_S = 60  # in which routes are known again, and brokers have come up


def _made_by_brokers(run: Run) -> list[Op]:
    """What consumers sent back, where the broker made the copy."""
    return [
        op
        for op in run.ops
        if op.f == "send_back" and op.type != "invoke" and op.value.get("copied") is False
    ]


def _declined(draft: Planting, nodes: tuple[str, ...] = (), **reported: Any) -> None:
    """The broker declined a send-back, and the client sent a copy of its own; no fault of those nodes was near."""
    run = draft.run
    op = draft.choose(
        _made_by_brokers(run),
        lambda op: (
            draft.is_here(op.time_ns)
            and not run.is_explained(
                op.time_ns - ANSWERED_S * S,
                op.time_ns,
                (*nodes, *run.nodes_of_broker(op.value["broker"]), op.node or ""),
                AROUND_S,
            )
        ),
    )
    draft.replace(op.index, value={**op.value, "copied": True, **reported})


@KINDS.mutation(
    "needless_refusal",
    "a healthy broker refuses what a consumer sends back, for an error (1)",
    workloads=("retry",),
)
def send_back_turned_away(draft: Planting) -> None:
    _declined(draft, code=1)


@KINDS.mutation(
    "refused_at_rest",
    "a broker does not answer a consumer that sends a message back",
    workloads=("retry",),
)
def send_back_unanswered(draft: Planting) -> None:
    _declined(draft, draft.run.facts.coordinators, code=None)


@KINDS.mutation(
    "refused_at_rest",
    "for 40 s brokers make no copies of what a consumer sends back; its client does",
    workloads=("retry",),
)
def send_backs_declined(draft: Planting) -> None:
    run = draft.run
    made = _made_by_brokers(run)
    begin = draft.choose(made, lambda op: op.time_ns + 40 * S < run.end_ns)
    if run.facts.faults:
        raise NoSuchSite
    declined = [
        op
        for op in made
        if op.node == begin.node and begin.time_ns <= op.time_ns < begin.time_ns + 40 * S
    ]
    if len({op.time_ns // S for op in declined}) < 10:
        raise NoSuchSite
    for op in declined:
        draft.alter(op.index, copied=True)


@KINDS.oddity(
    "a broker that is too busy refuses what a consumer sends back, and its client makes the copy",
    workloads=("retry",),
)
def send_back_to_busy_broker(draft: Planting) -> None:
    op = draft.choose(_made_by_brokers(draft.run), lambda op: draft.is_here(op.time_ns))
    draft.alter(op.index, copied=True, code=2)
