"""The changes that faults make to a cluster through its administration during one run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from staticfire.harness.accounts import GuestRights

if TYPE_CHECKING:
    from staticfire.harness.rocketmq.administration.side_topics import SideTopic


@dataclass(slots=True)
class ClusterChanges:
    """The changes so far. `ClusterThroughAdmin` writes them, the drain and the interpreter read them.

    Attributes:
        queues_max: queues of the topic on each broker; the fault topic-change adds some.
        guest_rights: whether the account of the guest may send.
        side_topics: topics beside the load, oldest first.
    """

    queues_max: int
    guest_rights: GuestRights = field(default_factory=GuestRights)
    side_topics: list[SideTopic] = field(default_factory=list)
