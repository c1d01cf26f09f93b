"""Wrongs of messages that some group never gets."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from tests.checkers.mutations.events import Delivery, Sent
from tests.checkers.mutations.kinds import KINDS
from tests.checkers.mutations.model import ANSWERED, PLAIN, NoSuchSite, Run, without
from tests.checkers.mutations.pick import (
    is_delivered_once,
    may_be_destroyed,
    on_master_only,
    only_delivery,
    outcome_unknown,
)
from tests.checkers.mutations.planting import Planting


def _can_be_missed(run: Run, sent: Sent) -> bool:
    """The only deliveries are normal; what a forwarder was given it has sent on."""
    found = run.by_key.get(sent.key, [])
    return is_delivered_once(run, sent.key) and all(
        run.workload != "forwarded" or d.group.endswith("-forwarded") for d in found
    )


@KINDS.mutation(
    "lost",
    "a message with SEND_OK is delivered to no group; its queue still has it",
    workloads=without(*ANSWERED),
)
def acked_not_delivered(draft: Planting) -> None:
    sent = draft.pick_sent(lambda s: s.type == "ok" and _can_be_missed(draft.run, s))
    draft.drop_deliveries(draft.run.by_key[sent.key])


@KINDS.mutation(
    "lost",
    "a message with SEND_OK is in no queue and was delivered to no group",
    workloads=without(*ANSWERED),
)
def acked_gone_without_trace(draft: Planting) -> None:
    run = draft.run
    sent = draft.pick_sent(
        lambda s: (
            s.type == "ok"
            and s.broker is not None
            and _can_be_missed(run, s)
            and not may_be_destroyed(run, s.broker, s.begin_ns)
        )
    )
    draft.drop_deliveries(run.by_key[sent.key])
    draft.look_up(sent.key, lambda row: [*row[:3], False, False, False])


@KINDS.mutation(
    "lost",
    "twenty acknowledged messages in a row of a queue are delivered to no group",
    workloads=PLAIN,
)
def acked_row_not_delivered(draft: Planting) -> None:
    run = draft.run
    first = draft.pick_sent(lambda s: s.type == "ok" and s.offset >= 0 and _can_be_missed(run, s))
    row = [
        s
        for s in run.sends.values()
        if (s.topic, s.broker, s.queue) == (first.topic, first.broker, first.queue)
        and first.offset <= s.offset < first.offset + 20
        and s.type == "ok"
        and _can_be_missed(run, s)
    ]
    draft.drop_deliveries([d for s in row for d in run.by_key[s.key]])


@KINDS.mutation(
    "poll_skip",
    "the only group passes the place of a stored message without SEND_OK, and never gets it",
    workloads=PLAIN,
)
def unclear_place_passed_over(draft: Planting) -> None:
    run = draft.run
    sent = draft.pick_sent(
        lambda s: s.type == "info" and bool(run.by_key.get(s.key)) and _can_be_missed(run, s)
    )
    draft.drop_deliveries(run.by_key[sent.key])
    draft.look_up(sent.key, lambda row: None)


@KINDS.mutation("unseen", "one group of two never gets an acknowledged message", workloads=PLAIN)
def second_group_misses_acked(draft: Planting) -> None:
    _second_group_misses(draft, lambda s: s.type == "ok")


@KINDS.mutation(
    "unseen", "a message of a weak status that group 1 got never reaches group 2", workloads=PLAIN
)
def second_group_misses_weak(draft: Planting) -> None:
    with suppress(NoSuchSite):
        _second_group_misses(
            draft, lambda s: s.type == "info" and s.status not in ("", "SEND_OK") and s.offset >= 0
        )
        return
    _made_weak(draft)


def _made_weak(draft: Planting) -> None:
    """Where there is no weak send: one of which the slave is not said to have anything."""
    sent = _second_group_misses(draft, lambda s: s.type == "ok")
    if sent.at is None or draft.run.ops[sent.at].f != "send":
        raise NoSuchSite
    on_master_only(draft, sent, "SLAVE_NOT_AVAILABLE")


@KINDS.mutation(
    "unseen", "a message of an unknown send that group 1 got never reaches group 2", workloads=PLAIN
)
def second_group_misses_unknown(draft: Planting) -> None:
    with suppress(NoSuchSite):
        _second_group_misses(draft, lambda s: s.type == "info" and s.offset < 0 and s.is_plain)
        return
    sent = _second_group_misses(draft, lambda s: s.type == "ok" and s.is_plain)
    if sent.at is None or draft.run.ops[sent.at].f != "send":
        raise NoSuchSite
    outcome_unknown(draft, sent)


@KINDS.mutation(
    "unseen", "a one-way message that group 1 got never reaches group 2", workloads=PLAIN
)
def second_group_misses_one_way(draft: Planting) -> None:
    one_way = {
        op.value["key"] for op in draft.run.ops if op.f == "send" and op.value.get("one_way")
    }
    _second_group_misses(draft, lambda s: s.key in one_way)


def _missable(run: Run, sent: Sent) -> Delivery | None:
    """A delivery to one group of what another one got, too."""
    groups = [group for group in run.facts.groups if only_delivery(run, sent.key, group)]
    return only_delivery(run, sent.key, groups[-1]) if len(groups) > 1 else None


def _second_group_misses(draft: Planting, fits: Callable[[Sent], bool]) -> Sent:
    """A message that fits, after one group of two has never got it."""
    wide = draft.widen()
    sent = draft.pick_sent(lambda s: fits(s) and _missable(wide, s) is not None)
    missed = _missable(wide, sent)
    assert missed is not None
    draft.drop_deliveries([missed])
    return sent
