"""Cases: coroutines that each test one clause, registered under the clause's id."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from types import MappingProxyType
from typing import Any

from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.clause import Clause, Level, Need, contract
from staticfire.harness.conformance.failures import ClauseBroken

Trial = Callable[[Bench], Awaitable[None]]
LIMIT_S = 30.0  # of the target's clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The test of one clause."""

    clause: Clause
    trial: Trial
    limit_s: float  # a case that takes longer has failed
    is_slow: bool  # takes minutes of the wall clock: runs only with --slow or in virtual time
    is_alone: bool  # breaks nodes or changes their options: no other case may run beside it
    # Further options of the campaign that describes the case's cluster.
    cluster: Mapping[str, Any] = field(default_factory=dict)
    spoils: bool = False  # may leave a cluster that no other case can use

    @property
    def needs_own_cluster(self) -> bool:
        """Whether the case must not share its cluster with other cases."""
        return self.spoils or bool(self.cluster)


_CASES: dict[str, Case] = {}


def case(
    clause_id: str,
    *,
    limit_s: float = LIMIT_S,
    is_slow: bool = False,
    is_alone: bool = False,
    cluster: Mapping[str, Any] = MappingProxyType({}),
    spoils: bool = False,
) -> Callable[[Trial], Trial]:
    """Register a coroutine as the case of a clause. Raises KeyError for an unknown clause."""

    def register(trial: Trial) -> Trial:
        clause = contract()[clause_id]
        assert clause_id not in _CASES, f"{clause_id} has a case already"
        _CASES[clause_id] = Case(
            clause=clause,
            trial=trial,
            limit_s=limit_s,
            is_slow=is_slow,
            is_alone=is_alone or bool(clause.needs & {Need.FAULT, Need.POWER}),
            cluster=cluster,
            spoils=spoils,
        )
        return trial

    return register


@cache
def cases() -> Mapping[str, Case]:
    """Return all cases by the id of their clause, in the order of the contract."""
    package = importlib.import_module("staticfire.harness.conformance.cases")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    return MappingProxyType({name: _CASES[name] for name in contract() if name in _CASES})


def require(holds: object, broken: str) -> None:
    """Raise ClauseBroken with the sentence `broken` unless `holds`."""
    if not holds:
        raise ClauseBroken(broken)


def require_equal(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise ClauseBroken(f"{what} is {found!r:.300}; expected {expected!r:.300}")


def selects(pattern: str, clause: Clause) -> bool:
    """Whether a selector matches the clause: `RMQ-TXN-*`, `level:must`, `needs:fault`, `area:SND`.

    Raises ValueError for an invalid selector.
    """
    kind, colon, value = pattern.partition(":")
    if not colon:
        return fnmatchcase(clause.id, pattern.upper())
    if kind == "level":
        return clause.level is Level(value.lower())
    if kind == "needs":
        return Need(value.lower()) in clause.needs
    if kind == "area":
        return clause.area_id == value.upper()
    raise ValueError(f"{pattern!r} is no selector")
