"""The seeds of a hunt: all of them drawn, or some bred, generation after generation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.cli.hunt.breeding import (
    GENERATION,
    Population,
    bred,
    is_bred,
    options_of,
)
from staticfire.harness.cli.hunt.seeds import Judging, SeedResult, campaign_of
from staticfire.harness.cli.hunt.workers import Task, Workers


def run_seeds(
    order: Sequence[int], given: dict[str, object], workers: Workers, judging: Judging
) -> Iterator[SeedResult]:
    """Yield the results as they come."""
    return workers.results([Task(seed, given, judging) for seed in order])


def run_guided(
    order: Sequence[int],
    given: dict[str, object],
    workers: Workers,
    judging: Judging,
    bred_folder: Path,
    former: Mapping[int, SeedResult],
) -> Iterator[SeedResult]:
    """Yield the results of a hunt with bred campaigns, generation after generation, in the order in which runs end.

    Args:
        order: all seeds of the hunt.
        bred_folder: gets the campaign of each bred run that is not valid.
        former: results of an interrupted hunt, whose seeds are not run again.

    Raises OSError.
    """
    population = Population([], set())
    for first in range(0, len(order), GENERATION):
        campaigns: dict[int, Campaign] = {}
        children: set[int] = set()
        for index, seed in enumerate(order[first : first + GENERATION], first):
            campaigns[seed] = drawn = campaign_of(seed, given, judging)
            if is_bred(index, population):
                campaigns[seed] = bred(drawn, population.parents)
                if campaigns[seed] is not drawn:
                    children.add(seed)
        results = {seed: former[seed] for seed in campaigns if seed in former}
        tasks = [
            Task(seed, options_of(campaign) if seed in children else given, judging)
            for seed, campaign in campaigns.items()
            if seed not in former
        ]
        for result in workers.results(tasks):
            if result.seed in children:
                result = _child(result, campaigns[result.seed], bred_folder)
            results[result.seed] = result
            yield result
        for seed, campaign in campaigns.items():
            population.take(campaign, results[seed].coverage)


def _child(result: SeedResult, campaign: Campaign, folder: Path) -> SeedResult:
    """Return the result of a bred campaign, which is kept in a file unless its run was valid. Raises OSError."""
    file = folder / f"bred-{campaign.seed}.toml"
    if result.valid is not True:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(campaign.to_toml(), encoding="utf-8")
    return replace(result, bred=str(file))
