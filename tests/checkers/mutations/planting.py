"""A draft that chooses for itself where it is changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from tests.checkers.mutations.draft import Draft
from tests.checkers.mutations.events import Delivery, Sent
from tests.checkers.mutations.model import NoSuchSite, Run, S, Site
from tests.checkers.mutations.pick import is_normal, nodes_of, only_delivery, two_groups

T = TypeVar("T")
TRIES_MAX = 300  # candidates that are looked at before there is "no place"


class Planting(Draft):
    """A draft for one kind, and the random choice of a place at one site of its run."""

    def __init__(self, run: Run, rng: Random, site: Site) -> None:
        super().__init__(run)
        self.rng = rng
        self.site = site

    def widen(self) -> Run:
        """Begin anew with a run that two groups consume, and return that. Raises NoSuchSite."""
        super().__init__(two_groups(self.run))
        return self.run

    def is_here(self, begin_ns: int, end_ns: int | None = None) -> bool:
        """Whether this time, or this span, is at the site."""
        return self.run.is_at(self.site, begin_ns, end_ns)

    def is_of_site(self) -> bool:
        """What is observed after the run is of a run with faults, or of one without."""
        return (self.site == "fault") == bool(self.run.facts.faults)

    def choose(self, candidates: Sequence[T], fits: Callable[[T], bool]) -> T:
        """A random candidate that fits. Raises NoSuchSite."""
        order = self.rng.sample(range(len(candidates)), min(len(candidates), TRIES_MAX))
        for at in order:
            if fits(candidates[at]):
                return candidates[at]
        raise NoSuchSite

    def pick_delivery(
        self,
        fits: Callable[[Delivery], bool] = lambda delivery: True,
        *,
        local: bool = False,
    ) -> Delivery:
        """A normal delivery at the site; `local`: no fault of its broker or its member can explain it.

        Raises NoSuchSite.
        """
        run = self.run
        return self.choose(
            run.deliveries,
            lambda d: (
                is_normal(run, d)
                and self.is_here(d.time_ns)
                and fits(d)
                and not (
                    local and run.is_explained(d.time_ns - S, d.time_ns + S, nodes_of(run, d), 10.0)
                )
            ),
        )

    def pick_single(
        self, fits: Callable[[Delivery], bool] = lambda delivery: True, *, local: bool = False
    ) -> Delivery:
        """A normal delivery that is the only one of its message to its group. Raises NoSuchSite."""
        return self.pick_delivery(
            lambda d: only_delivery(self.run, d.key, d.group) is not None and fits(d), local=local
        )

    def pick_sent(self, fits: Callable[[Sent], bool] = lambda sent: True) -> Sent:
        """A message of the load that was sent at the site. Raises NoSuchSite."""
        return self.choose(
            list(self.run.sends.values()),
            lambda sent: (
                sent.process < 90_000
                and sent.at is not None
                and self.is_here(sent.begin_ns, sent.time_ns)
                and fits(sent)
            ),
        )
