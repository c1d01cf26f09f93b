"""The rule of each anomaly, derived from the declarations in `checkers/anomalies/`.

A rule has the judgements of an anomaly without an excuse, in hardened and in faithful mode. It also has the
circumstance that excuses the anomaly, and the judgement with that excuse. The judgement of an anomaly with `by_damage`
depends on the profile and on the damage to the nodes that held the message (`checkers/guarantees/promises.py`).
`staticfire promises` prints all rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from staticfire.checkers.anomalies.anomaly import Anomaly
from staticfire.checkers.anomalies.catalogue import ANOMALIES
from staticfire.checkers.guarantees.judgement import Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The judgements of one anomaly. With the circumstance `excuse`, if any, the judgement is `excused`."""

    hardened: Judgement = Judgement.VIOLATION
    faithful: Judgement = Judgement.VIOLATION
    by_damage: bool = False
    excuse: str | None = None
    excused: Judgement = Judgement.ALLOWED


PLAIN = Rule()


def _rule(anomaly: Anomaly) -> Rule:
    return Rule(
        hardened=Judgement(anomaly.hardened),
        faithful=Judgement(anomaly.faithful),
        by_damage=anomaly.by_damage,
        excuse=anomaly.excuse or None,
        excused=Judgement(anomaly.excused),
    )


RULES: Mapping[str, Rule] = MappingProxyType(
    {name: _rule(anomaly) for name, anomaly in ANOMALIES.items()}
)
