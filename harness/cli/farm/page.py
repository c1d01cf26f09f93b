"""Makes the page of a farm from its ledger: one HTML file that loads nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from itertools import groupby

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from staticfire.harness.cli.farm.ledger import Ledger, Round
from staticfire.harness.cli.farm.schedule import HOUR_S, Settings
from staticfire.harness.serve.charts import Series, line_chart
from staticfire.harness.truncated_repr import printable

POINTS = 200  # points of the chart
ROUNDS_SHOWN = 30


@dataclass(slots=True)
class Failures:
    """Invalid seeds with one cause."""

    cause: str
    workload: str
    first: int
    commit: str
    seeds: int = 0
    shrunk: str = "not yet"


@dataclass(slots=True)
class OfCommit:
    """The results of one commit."""

    commit: str
    cpu_hours: float = 0.0
    answers: dict[str, int] = field(default_factory=dict)
    causes: set[str] = field(default_factory=set)


def page(ledger: Ledger, settings: Settings, now_s: float, missed: Sequence[str]) -> str:
    """Return the page as HTML. `missed`: the canaries that the farm did not find, so that it counts as broken."""
    rounds = ledger.rounds
    today = ledger.cpu_s(time.strftime("%Y-%m-%d", time.gmtime(now_s)))
    return _template().render(
        style=_style(),
        made=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(now_s)),
        missed=missed,
        seeds=sum(one.seeds for one in rounds),
        cpu_hours=sum(one.cpu_s for one in rounds) / HOUR_S,
        today=today / HOUR_S,
        settings=settings,
        behaviours=behaviours_over_time(rounds)[-1] if rounds else 0.0,
        chart=_chart(rounds),
        failures=failures(rounds),
        commits=by_commit(rounds),
        canaries=_latest_canaries(rounds),
        latest=rounds[: -ROUNDS_SHOWN - 1 : -1],
    )


def failures(rounds: Sequence[Round]) -> list[Failures]:
    """Return the failures by cause, the most frequent first."""
    found: dict[str, Failures] = {}
    for one in rounds:
        for cause, seed in one.causes.items():
            failure = found.setdefault(cause, Failures(cause, one.name, seed, one.commit))
            failure.seeds += one.cause_seeds.get(cause, 1)
        if one.kind == "shrink" and one.name in found:
            found[one.name].shrunk = "yes" if one.is_found else f"no: {one.error}"
    return sorted(found.values(), key=lambda one: (-one.seeds, one.cause))


def by_commit(rounds: Sequence[Round]) -> list[OfCommit]:
    """Return the results by commit, the newest first."""
    found: dict[str, OfCommit] = {}
    for one in rounds:
        of = found.setdefault(one.commit, OfCommit(one.commit or "installed"))
        of.cpu_hours += one.cpu_s / HOUR_S
        of.causes |= one.causes.keys()
        for answer, count in one.answers.items():
            of.answers[answer] = of.answers.get(answer, 0) + count
    return [*found.values()][::-1]


def behaviours_over_time(rounds: Sequence[Round]) -> list[float]:
    """Return the number of behaviours seen after each round."""
    seen: set[tuple[str, int]] = set()
    counts = []
    for one in rounds:
        seen |= set(one.behaviours.items())
        counts.append(float(len(seen)))
    return counts


def _chart(rounds: Sequence[Round]) -> Markup:
    """Draw the behaviours seen over the CPU hours."""
    counts, spent = behaviours_over_time(rounds), 0.0
    total = sum(one.cpu_s for one in rounds)
    if not total:
        return Markup("")
    step = total / POINTS
    values = [0.0] * (POINTS + 1)
    for one, count in zip(rounds, counts, strict=True):
        spent += one.cpu_s
        at = min(POINTS, int(spent / step))
        values[at:] = [count] * (POINTS + 1 - at)
    return line_chart(
        [Series(name="behaviours", values=values)],
        begin=0.0,
        step=step / HOUR_S,
        unit="CPU h",
        label="Behaviours seen over the CPU hours",
    )


def _latest_canaries(rounds: Sequence[Round]) -> list[Round]:
    canaries = sorted((one for one in rounds if one.kind == "canary"), key=lambda one: one.name)
    return [list(found)[-1] for _, found in groupby(canaries, key=lambda one: one.name)]


def _style() -> Markup:
    path = resources.files("staticfire.harness") / "serve" / "static" / "style.css"
    return Markup(path.read_text(encoding="utf-8"))


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("staticfire.harness.cli.farm"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
    )
    return environment.get_template("farm.html")


def _shown(value: object) -> object:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
