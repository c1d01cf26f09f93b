"""The blast radius of a failure: recoveries that cut acknowledged messages off, and queues that lack messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from staticfire.checkers.model.columns import UNKNOWN, Names, Outcome
from staticfire.harness.html_report.history_rows import QueueEvents

CUTS_MAX = 40


@dataclass(slots=True, kw_only=True)
class Cut:
    """A recovery after an unclean end, which may have cut the end of the node's log off."""

    node: str
    broker: str
    time_ns: int
    end_offset: int
    cut_bytes: int
    since_ns: int  # the node's previous recovery
    messages: int = 0  # acknowledged since then, at or behind the recovered end
    queues: dict[int, int] = field(default_factory=dict)  # messages by queue


def cuts_of(
    observations: Sequence[Mapping[str, object]], brokers: Mapping[str, Sequence[str]]
) -> list[Cut]:
    """Return the recoveries after an unclean end, at most the first CUTS_MAX."""
    broker_of = {node: broker for broker, nodes in brokers.items() for node in nodes}
    since: dict[str, int] = {}
    cuts = []
    for seen in observations:
        node = seen.get("node")
        if seen.get("kind") != "recovery" or node not in broker_of:
            continue
        end, cut, time_ns = seen.get("end_offset"), seen.get("cut_bytes"), seen.get("time_ns")
        if not isinstance(time_ns, int):
            continue
        if seen.get("clean") is False and isinstance(end, int) and isinstance(cut, int):
            cuts.append(
                Cut(
                    node=str(node),
                    broker=broker_of[node],
                    time_ns=time_ns,
                    end_offset=end,
                    cut_bytes=cut,
                    since_ns=since.get(str(node), 0),
                )
            )
        since[str(node)] = time_ns
    return cuts[:CUTS_MAX]


def count_cut_messages(cuts: Sequence[Cut], names: Names, events: QueueEvents) -> None:
    """Add the messages of one queue to the cuts that removed them."""
    if events.queue == UNKNOWN or not cuts:
        return
    broker = names.logs[events.queue].stream
    acked = events.sends.where(events.sends["outcome"] == Outcome.OK)
    for cut in cuts:
        if cut.broker != broker:
            continue
        behind = acked["physical_offset"] >= cut.end_offset
        meanwhile = (acked["time_ns"] >= cut.since_ns) & (acked["time_ns"] < cut.time_ns)
        if count := int((behind & meanwhile).sum()):
            cut.messages += count
            cut.queues[events.queue] = count
