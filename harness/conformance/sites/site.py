"""The face of a site, in which a target runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from staticfire.harness.conformance.case import Case
from staticfire.harness.conformance.clause import Need
from staticfire.harness.conformance.result import CaseResult

OnResult = Callable[[CaseResult], None]


class Site(Protocol):
    """The interface of a site, which runs a target."""

    name: str  # "simulation", "address 10.0.0.1:9876"
    is_virtual: bool  # its clock is not the one on the wall: waiting costs nothing
    makes_clusters: bool  # a case may have a cluster of its own, with other options

    def lacks(self, need: Need) -> str | None:
        """Return why a need is not met here; None if it is. Raises SiteFailed."""
        ...

    def run(self, cases: Sequence[Case], on_result: OnResult) -> None:
        """Run the cases and report each result. A case without a report was not run.

        Raises SiteFailed. Ctrl-C and SIGTERM raise KeyboardInterrupt, once what was made is removed.
        """
        ...


class SiteFailed(Exception):
    """The target is not there, or not a RocketMQ: one sentence."""
