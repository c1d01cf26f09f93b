"""Bounds how far followers lagged when a broker stored a message, to explain SLAVE_NOT_AVAILABLE.

A broker does not wait for followers that lack haSlaveFallbehindMax bytes of its log or more. No observation shows how
much they had at that moment. But if the harness observed the promised copies, followers had all messages that the
broker had acknowledged with SEND_OK before the send began, and the broker knew it. It knows of copies of messages with
a weaker status after REPORTED_NS. Followers lacked at most the bytes from the highest end of these messages to the end
of the stored one. If a follower holds a message that was sent after a fault, it is back, and the fault does not explain
a later SLAVE_NOT_AVAILABLE (`HeldSends`).

Source: HAService.isSlaveOK of Apache RocketMQ 4.9; a follower reports at least every haSendHeartbeatInterval, 5 s.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from staticfire.checkers.guarantees.promises import FOREVER_NS, NS_PER_S
from staticfire.checkers.model.columns import MessageEvents

NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
REPORTED_NS = 10 * NS_PER_S

Seen = Mapping[str, Any]


class KnownCopies:
    """The end of the part of each broker's log of which the broker knew the promised copies, over time."""

    def __init__(self, held: Iterable[Seen]) -> None:
        """Index the observations `held`, of messages that as many nodes held as SEND_OK promises."""
        known: dict[str, list[tuple[int, int]]] = {}
        for seen in held:
            if seen["end_offset"] is not None:
                since_ns = seen["time_ns"] + (0 if seen["status"] == "SEND_OK" else REPORTED_NS)
                known.setdefault(seen["broker_name"], []).append((since_ns, seen["end_offset"]))
        self._since_ns: dict[str, list[int]] = {}
        self._furthest: dict[str, list[int]] = {}
        for broker, ends in known.items():
            ends.sort()
            self._since_ns[broker] = [since_ns for since_ns, _ in ends]
            self._furthest[broker] = list(accumulate((end for _, end in ends), max))

    def end_at(self, broker: str, time_ns: int) -> int | None:
        """Return the physical offset up to which the broker knew of copies; None if it knew of none."""
        number = bisect_right(self._since_ns.get(broker, ()), time_ns)
        return self._furthest[broker][number - 1] if number else None


class HeldSends:
    """Sends that followers hold, although the broker answered them with a weaker status than SEND_OK.

    The broker knows of each send from REPORTED_NS after its answer on.
    """

    def __init__(self, held: Iterable[tuple[str, int, int]]) -> None:
        """Index the sends `held`: replica set, begin and end of each, in ns."""
        known: dict[str, list[tuple[int, int]]] = {}
        for broker, began_ns, answered_ns in held:
            known.setdefault(broker, []).append((answered_ns + REPORTED_NS, began_ns))
        self._since_ns: dict[str, list[int]] = {}
        self._latest_ns: dict[str, list[int]] = {}
        for broker, sends in known.items():
            sends.sort()
            self._since_ns[broker] = [since_ns for since_ns, _ in sends]
            self._latest_ns[broker] = list(accumulate((began_ns for _, began_ns in sends), max))

    def latest_ns(self, broker: str, time_ns: int) -> int | None:
        """Return the begin of the latest send of which the broker knew at a time, in ns; None if it knew of none."""
        number = bisect_right(self._since_ns.get(broker, ()), time_ns)
        return self._latest_ns[broker][number - 1] if number else None

    def known_ns(self, broker: str, after_ns: int) -> int:
        """Return the time in ns from which on the broker knew of a send that began after `after_ns`, or FOREVER_NS."""
        number = bisect_right(self._latest_ns.get(broker, ()), after_ns)
        since_ns = self._since_ns.get(broker, ())
        return since_ns[number] if number < len(since_ns) else FOREVER_NS


def rows_left_behind(
    sends: MessageEvents,
    observed: Sequence[tuple[str, int, Seen]],
    held: Iterable[Seen],
    behind_max_bytes: int,
) -> set[int]:
    """Return the rows of sends for which followers may have been too far behind.

    Args:
        sends: the sends.
        observed: replica set, row, and observation of the acknowledgement of each send.
        held: observations of messages that as many nodes held as SEND_OK promises.
        behind_max_bytes: a follower that lacks this much does not count.
    """
    refused = [
        ((broker, int(sends.process[row]), int(sends.invoke_ns[row])), row, seen["end_offset"])
        for broker, row, seen in observed
        if seen["status"] == NOT_AVAILABLE and seen["end_offset"] is not None
    ]
    if max((end for _, _, end in refused), default=0) < behind_max_bytes:
        return set()  # not even an empty follower is that far behind
    known = KnownCopies(held)
    ends: dict[tuple[str, int, int], int] = {}  # a broker stores a batch at once
    for put, _, end in refused:
        ends[put] = max(end, ends.get(put, 0))
    behind = set()
    for put, row, _ in refused:
        broker, _, began_ns = put
        copied = known.end_at(broker, began_ns)
        if copied is not None and ends[put] - copied >= behind_max_bytes:
            behind.add(row)
    return behind
