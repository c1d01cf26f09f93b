"""The interface of a site, which runs or reaches a target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from staticfire.harness.conformance.case import Case
from staticfire.harness.conformance.clause import Need
from staticfire.harness.conformance.result import CaseResult

OnResult = Callable[[CaseResult], None]


class Site(Protocol):
    """A site, which runs or reaches a target."""

    name: str  # "simulation", "address 10.0.0.1:9876"
    is_virtual: bool  # its time is virtual: waiting takes no real time
    makes_clusters: bool  # a case may have its own cluster with other options

    def lacks(self, need: Need) -> str | None:
        """Return why the site does not meet a need; None if it does. Raises SiteFailed."""
        ...

    def run(self, cases: Sequence[Case], on_result: OnResult) -> None:
        """Run the cases and report each result. A case without a report did not run.

        Raises SiteFailed. Ctrl-C and SIGTERM raise KeyboardInterrupt after the clean-up.
        """
        ...


class SiteFailed(Exception):
    """The target is missing or is no RocketMQ; the text is one sentence."""
