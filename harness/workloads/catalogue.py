"""Every workload by name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    name: str
    summary: str  # one line, for `staticfire workloads`


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            name="queue",
            summary="keyed sends and one consumer group: nothing acknowledged is lost or unseen",
        ),
    )
}
