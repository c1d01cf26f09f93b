"""The list that mutations and oddities register in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.checkers.mutations.model import Mutation, NoSuchSite, Oddity, Plant, Run, Site
from tests.checkers.mutations.planting import Planting

Edit = Callable[[Planting], None]


@dataclass(slots=True)
class Kinds:
    """A list that functions add themselves to.

    Such a function changes the draft; it raises NoSuchSite where the run has no place for it.
    """

    mutations: list[Mutation] = field(default_factory=list)
    oddities: list[Oddity] = field(default_factory=list)

    def mutation(self, aim: str, what: str, **options: Any) -> Callable[[Edit], Edit]:
        def register(edit: Edit) -> Edit:
            self.mutations.append(
                Mutation(name=edit.__name__, aim=aim, what=what, plant=plant_of(edit), **options)
            )
            return edit

        return register

    def oddity(self, why: str, **options: Any) -> Callable[[Edit], Edit]:
        def register(edit: Edit) -> Edit:
            self.oddities.append(
                Oddity(name=edit.__name__, why=why, plant=plant_of(edit), **options)
            )
            return edit

        return register


def plant_of(edit: Edit) -> Plant:
    """The kind as a function of a run, in a copy of which the edit is made."""

    def plant(run: Run, rng: Random, site: Site) -> Run | None:
        draft = Planting(run, rng, site)
        try:
            edit(draft)
        except NoSuchSite:
            return None
        return draft.finish()

    return plant


KINDS = Kinds()
