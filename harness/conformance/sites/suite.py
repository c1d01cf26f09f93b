"""Selects the cases that run, and sums up their results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from staticfire.harness.conformance.case import Case, cases, selects
from staticfire.harness.conformance.clause import BINDING, Clause, Level, contract
from staticfire.harness.conformance.result import CaseResult, Outcome
from staticfire.harness.conformance.sites.site import Site, SiteFailed

FLOOR = 10  # least number of cases for a verdict, or half of a smaller selection
BROKER_CORE = (
    *("REM", "SND", "PUL", "LPL", "ORD", "DLY", "RTY"),
    *("TXN", "FLT", "OFF", "RBL", "ADM", "LIM"),
)
PROFILES: Mapping[str, tuple[str, ...]] = {
    "all": ("RMQ-*",),
    "broker-core": tuple(f"area:{area}" for area in BROKER_CORE),
    "broker-ha": ("area:HA",),
    "nameserver": ("area:NS",),
    "store-4.9": ("area:STO",),
    "durable": ("area:RCV", "RMQ-SND-09", "RMQ-SND-10"),
    "client": ("needs:client",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteResult:
    """All results of one target, in the order of the contract."""

    target: str
    results: tuple[CaseResult, ...]
    floor: int
    stopped: str = ""  # why the suite stopped early, as a sentence
    is_interrupted: bool = False  # the user stopped it

    def counts(self) -> Counter[Outcome]:
        return Counter(result.outcome for result in self.results)

    @property
    def broken(self) -> tuple[CaseResult, ...]:
        """Return the failures of MUST and SHOULD clauses, which fail the target."""
        return tuple(
            result
            for result in self.results
            if result.outcome is Outcome.FAILED and result.clause.level in BINDING
        )

    @property
    def errors(self) -> tuple[CaseResult, ...]:
        return tuple(result for result in self.results if result.outcome is Outcome.ERROR)

    @property
    def ran(self) -> int:
        return sum(result.outcome is not Outcome.NOT_RUN for result in self.results)

    @property
    def is_below_floor(self) -> bool:
        return self.ran < self.floor


def choose(profile: str, patterns: Sequence[str]) -> tuple[Clause, ...]:
    """Return the clauses of a profile that match a pattern; without patterns all. Raises ValueError."""
    wanted = PROFILES[profile]
    return tuple(
        clause
        for clause in contract().values()
        if any(selects(pattern, clause) for pattern in wanted)
        if not patterns or any(selects(pattern, clause) for pattern in patterns)
    )


def run_suite(
    site: Site,
    clauses: Sequence[Clause],
    *,
    slow: bool = False,
    expected: Callable[[CaseResult], CaseResult] = lambda result: result,
    on_result: Callable[[CaseResult], None] = lambda _: None,
) -> SuiteResult:
    """Try the cases of these clauses. A case that cannot run here is `not run`, with the reason.

    So are the remaining cases if the target goes away or the user interrupts, and all cases if there is no target.

    Args:
        expected: applies the expectations to a result.
    """
    results: dict[str, CaseResult] = {}

    def take(result: CaseResult) -> None:
        if result.outcome is Outcome.FAILED and is_quirk(result.clause):
            reason = f"{result.clause.quirk or 'Java does so, too'}: {result.reason}"
            result = replace(result, outcome=Outcome.QUIRK, reason=reason)
        result = results[result.clause.id] = expected(result)
        on_result(result)

    stopped, is_interrupted = "", False
    try:
        if runnable := _runnable(site, clauses, take, slow=slow):
            site.run(runnable, take)
    except SiteFailed as error:
        stopped = str(error)
    except KeyboardInterrupt:
        stopped = f"interrupted after {len(results)} of {len(clauses)} clauses"
        is_interrupted = True
    for clause in clauses:
        if clause.id not in results:
            take(CaseResult(clause=clause, outcome=Outcome.NOT_RUN, reason=stopped))
    return SuiteResult(
        target=site.name,
        results=tuple(results[clause.id] for clause in clauses),
        floor=min(FLOOR, (len(clauses) + 1) // 2),
        stopped=stopped,
        is_interrupted=is_interrupted,
    )


def _runnable(
    site: Site, clauses: Sequence[Clause], take: Callable[[CaseResult], None], *, slow: bool
) -> list[Case]:
    """Return the cases that can run here; report the others to `take`. Raises SiteFailed."""
    runnable: list[Case] = []
    for clause in clauses:
        found = cases().get(clause.id)
        reason = "no case tries it yet" if found is None else why_not(found, site, slow=slow)
        if found is None or reason:
            take(CaseResult(clause=clause, outcome=Outcome.NOT_RUN, reason=reason))
        else:
            runnable.append(found)
    return runnable


def is_quirk(clause: Clause) -> bool:
    """Whether Java itself breaks the clause, so that it fails no target."""
    return clause.level is Level.QUIRK or bool(clause.quirk)


def why_not(case: Case, site: Site, *, slow: bool) -> str:
    """Return why a case cannot run at a site; empty if it can. Raises SiteFailed."""
    for need in sorted(case.clause.needs):
        if reason := site.lacks(need):
            return f"needs {need}: {reason}"
    if case.cluster and not site.makes_clusters:
        return "needs a cluster with other options; --environment starts one for it"
    if case.spoils and not site.makes_clusters:
        return "may leave a cluster that cannot be used; --environment starts one for it"
    if case.is_slow and not slow and not site.is_virtual:
        return f"takes up to {case.limit_s:g} s; --slow runs it"
    return ""
