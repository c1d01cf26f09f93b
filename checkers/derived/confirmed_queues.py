"""The queues that leaders have confirmed to an operator, and the times in which a leader must have them.

A leader that has confirmed more queues has them until a fault makes it forget them. After its disk was emptied, it has
at most the table of topics of a follower. If the table is not fsynced, a power cut may destroy recent writes to it, and
the broker does not notice a failed write.

Source: TopicConfigManager and ConfigManager.persist of Apache RocketMQ 4.9.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.facts import QueuesConfirmed, RunFacts
from staticfire.checkers.guarantees.promises import FOREVER_NS, NS_PER_S
from staticfire.checkers.model.intervals import Span

FORGOTTEN = "queues_forgotten"
UNSYNCED = "queues_unsynced"  # the same, if the leader does not fsync the table of topics
# most rounds until a server that registers in rounds has repeated a failed registration
ROUNDS = 1.5


class Confirmed(NamedTuple):
    """A time in which a topic has at least this many queues on a leader."""

    topic: str
    stream: str
    queues: int
    span: Span


def confirmed_queues(context: Context) -> Sequence[Confirmed]:
    """Return the queues that leaders have confirmed, in the order of the answers; cached."""
    if "confirmed queues" not in context.cache:
        answers = chain.from_iterable(fault.confirmed for fault in context.facts.faults)
        context.cache["confirmed queues"] = tuple(
            Confirmed(
                one.topic,
                one.stream,
                one.queues,
                Span(one.answered_ns, _forgotten_ns(context, one)),
            )
            for one in sorted(answers, key=lambda one: one.answered_ns)
        )
    found = context.cache["confirmed queues"]
    assert isinstance(found, tuple)
    return found


def least_queues(context: Context, topic: str, stream: str, at_ns: int) -> int:
    """Return the least number of queues of a topic that the leader must have at a time; 0 if it has confirmed none."""
    return max(
        (
            one.queues
            for one in confirmed_queues(context)
            if (one.topic, one.stream) == (topic, stream)
            and one.span.start_ns <= at_ns < one.span.end_ns
        ),
        default=0,
    )


def registered_ns(facts: RunFacts) -> int:
    """Return the longest time of a registration in ns, with one unanswered attempt; in rounds, with the next round."""
    in_rounds = facts.mode == "faithful"
    usual_s = 2 * facts.timings.request_s
    return int(NS_PER_S * (usual_s + (ROUNDS * facts.timings.register_s if in_rounds else 0.0)))


def _forgotten_ns(context: Context, one: QueuesConfirmed) -> int:
    names = (FORGOTTEN, UNSYNCED) if context.facts.timings.write_back_s else (FORGOTTEN,)
    windows = chain.from_iterable(context.excuses.windows(name, one.stream) for name in names)
    starts = (window.start_ns for window in windows if window.end_ns >= one.answered_ns)
    return max(one.answered_ns, min(starts, default=FOREVER_NS))
