"""The scores as tables in Markdown."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from staticfire.checkers.verdicts.compose import ALL_CHECKERS
from tests.checkers.mutations.catalogue import all_mutations, all_oddities
from tests.checkers.mutations.model import SITES, Site
from tests.checkers.mutations.score import Score, Scores

FLOORS = Path(__file__).parent / "floors.toml"
DEFAULT_FLOORS: Mapping[Site, float] = {"rest": 0.95, "fault": 0.8}
TITLES: Mapping[Site, str] = {"rest": "at rest", "fault": "near faults"}
NAMED_MAX = 3
# Anomalies that no kind aims at: they make no verdict invalid.
NOT_PLANTED = {
    "duplicate": "allowed: at least once",
    "consumed_too_long": "informational: a listener that is too slow is not the broker's fault",
    "hot_key": "informational: the load has chosen its keys",
}


@dataclass(frozen=True, slots=True)
class Floor:
    """The least share of a kind that has to be detected, and why it is not the usual one."""

    rest: float
    fault: float
    reason: str
    invalid: int = 0  # places of an oddity that a checker is known to call invalid, wrongly

    def of(self, site: Site) -> float:
        return self.rest if site == "rest" else self.fault


def read_floors(path: Path = FLOORS) -> dict[str, Floor]:
    """Floors of kinds that have others than the usual ones. Raises ValueError for one without a reason."""
    floors = {}
    for name, row in tomllib.loads(path.read_text(encoding="utf-8")).items():
        if not row.get("reason"):
            raise ValueError(f"the floors of {name} have no reason")
        floors[name] = Floor(
            rest=row.get("rest", DEFAULT_FLOORS["rest"]),
            fault=row.get("fault", DEFAULT_FLOORS["fault"]),
            reason=row["reason"],
            invalid=row.get("invalid", 0),
        )
    return floors


def floor_of(floors: Mapping[str, Floor], name: str, site: Site) -> float:
    return floors[name].of(site) if name in floors else DEFAULT_FLOORS[site]


def below_floor(scores: Scores, floors: Mapping[str, Floor]) -> list[str]:
    """A sentence for each kind that was detected less often than it has to be, and for each oddity and crash."""
    found = []
    for kind in all_mutations():
        for site in SITES:
            score = scores.get((kind.name, site))
            least = floor_of(floors, kind.name, site)
            # One place of slack: a sample is small.
            if (
                score is not None
                and score.share is not None
                and score.detected < least * score.places - 1
            ):
                found.append(
                    f"{kind.name} at {site}: {score.share:.0%} detected, at least {least:.0%} have to be"
                )
    for oddity in all_oddities():
        for site in SITES:
            score = scores.get((oddity.name, site))
            known = floors[oddity.name].invalid if oddity.name in floors else 0
            if score is not None and score.invalid > known:
                found.append(
                    f"{oddity.name} at {site}: {score.invalid} of {score.places} invalid, {score.missed}"
                )
    found += [
        f"a checker failed at {crash}" for score in scores.values() for crash in score.crashes
    ]
    return found


def _cell(score: Score | None) -> str:
    if score is None or score.share is None:
        return "no place"
    unknown = f", {score.unknown} unknown" if score.unknown else ""
    return f"{score.share:.0%} of {score.places}{unknown}"


def _named(scores: Scores, name: str) -> str:
    named = sum(
        (scores[name, site].named for site in SITES if (name, site) in scores), start=Score().named
    )
    return ", ".join(f"{anomaly} {count}" for anomaly, count in named.most_common(NAMED_MAX))


def mutations_table(scores: Scores, floors: Mapping[str, Floor]) -> str:
    rows = [
        "| kind | aim | planted | at rest | near faults | named | why it may be less |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in all_mutations():
        cells = [_cell(scores.get((kind.name, site))) for site in SITES]
        reason = floors[kind.name].reason if kind.name in floors else ""
        cells += [_named(scores, kind.name), reason]
        rows.append(f"| `{kind.name}` | {kind.aim} | {kind.what} | {' | '.join(cells)} |")
    return "\n".join(rows)


def oddities_table(scores: Scores) -> str:
    rows = ["| oddity | why it is legal | places | invalid | named |", "|---|---|---|---|---|"]
    for kind in all_oddities():
        several = [scores[kind.name, site] for site in SITES if (kind.name, site) in scores]
        places, invalid = sum(s.places for s in several), sum(s.invalid for s in several)
        rows.append(
            f"| `{kind.name}` | {kind.why} | {places} | {invalid} | {_named(scores, kind.name) if invalid else ''} |"
        )
    return "\n".join(rows)


def summary(scores: Scores) -> str:
    """Totals in a few lines."""
    lines = []
    for site in SITES:
        several = [
            scores[kind.name, site] for kind in all_mutations() if (kind.name, site) in scores
        ]
        with_places = [score for score in several if score.places]
        least = DEFAULT_FLOORS[site]
        enough = sum((score.share or 0) >= least for score in with_places)
        places, detected = sum(s.places for s in several), sum(s.detected for s in several)
        lines.append(
            f"{TITLES[site]}: {detected} of {places} places detected; "
            f"{enough} of {len(with_places)} kinds at {least:.0%} or more"
        )
    several = [s for o in all_oddities() for site in SITES if (s := scores.get((o.name, site)))]
    lines.append(
        f"oddities: {sum(s.invalid for s in several)} of {sum(s.places for s in several)} places invalid"
    )
    lines.append(f"checkers that failed: {sum(len(s.crashes) for s in scores.values())}")
    return "\n".join(lines)


def misses(scores: Scores) -> str:
    """Where to plant again what was not detected."""
    return "\n".join(f"- {where}" for score in scores.values() for where in score.missed)


def crashes(scores: Scores) -> str:
    return "\n".join(f"- {crash}" for score in scores.values() for crash in score.crashes[:3])


def not_named(scores: Scores, floors: Mapping[str, Floor]) -> str:
    """Anomalies of the catalogue that no kind made a verdict name, with the reason."""
    named = sum((score.named for score in scores.values()), start=Score().named)
    return "\n".join(
        f"- `{anomaly}`: {_why_not_named(anomaly, scores, floors)}"
        for anomaly in sorted(every_anomaly())
        if not named[anomaly]
    )


def every_anomaly() -> set[str]:
    return {anomaly for checker in ALL_CHECKERS for anomaly in checker.anomalies}


def _why_not_named(anomaly: str, scores: Scores, floors: Mapping[str, Floor]) -> str:
    if anomaly in NOT_PLANTED:
        return NOT_PLANTED[anomaly]
    aimed = [kind.name for kind in all_mutations() if kind.aim == anomaly]
    planted = [
        name for name in aimed if any((s := scores.get((name, of))) and s.places for of in SITES)
    ]
    if not planted:
        return f"no place for {', '.join(aimed)}"
    reasons = {floors[name].reason for name in planted if name in floors}
    return "; ".join(sorted(reasons)) or f"{', '.join(planted)} named something else, or nothing"


def report(scores: Scores, floors: Mapping[str, Floor]) -> str:
    parts = [
        "## Totals",
        summary(scores),
        "## Mutations",
        mutations_table(scores, floors),
        "## Anomalies that no verdict named",
        not_named(scores, floors),
        "## Legal oddities",
        oddities_table(scores),
        "## Not detected, or wrongly called invalid (kind/workload/seed/site/number)",
        misses(scores),
        "## Checkers that failed",
        crashes(scores) or "none",
    ]
    return "\n\n".join(parts) + "\n"


PAGE = """# The mutation suite of the checkers

A verdict is worth what it would have found. `tests/checkers/mutations/` takes valid runs of every workload, plants one
mutation into each, and asks `check_run`. It plants each kind of mutation at random places: *at rest*, in runs without
faults, and *near faults*, in the default campaign of the workload, where no fault explains it. A place counts as
detected if the verdict is invalid; for evidence that was taken away, such as all look-ups, unknown is enough. Legal
*oddities* are planted the same way and may never be invalid. The author of the first kinds had not read the rules of
the checkers; later kinds came with their rule.

    {command}

With `--resume FILE` the measurement may take several invocations, each of at most `--seconds`: the file keeps the
counts, and the next invocation measures only what the file lacks.

Each new checker and each new excuse brings a kind; a test fails if no kind aims at an anomaly. At least 95 % of the
places of a kind must be detected at rest, and 80 % near faults; `floors.toml` has the exceptions, with their reasons.
"No place" means that none of these runs has a suitable place. CI plants every kind once in each workload, at places
that change with the commit (`STATICFIRE_ROTATION`). It prints each kind below its floor, and fails if there are more
than four.

## Totals

{summary}

## Mutations

{mutations}

## Anomalies that no verdict named

{not_named}

## Legal oddities

{oddities}
"""


def _places(scores: Scores) -> str:
    """How many places each workload had: a measurement that was ended early lacks some."""
    counts = sum((score.by_workload for score in scores.values()), start=Score().by_workload)
    return "places: " + ", ".join(f"{name} {count}" for name, count in counts.most_common())


def page(scores: Scores, floors: Mapping[str, Floor], command: str) -> str:
    """The text of docs/mutations.md."""
    return PAGE.format(
        command=command,
        summary=f"{summary(scores)}\n{_places(scores)}".replace("\n", "  \n"),
        mutations=mutations_table(scores, floors),
        not_named=not_named(scores, floors),
        oddities=oddities_table(scores),
    )
