"""The rule of every anomaly, by mode and excuse, made of the declarations in `checkers/anomalies/`.

A rule says what the anomaly is when nothing excuses it, in hardened and in faithful mode; and what excuses it, with the
judgement that it has then. Those with `by_damage` need more: what they mean depends on the profile and on what was
done to the nodes that held the message (`checkers/guarantees/promises.py`). `staticfire promises` shows all of it.
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
    """What one anomaly means. `excuse` says when it is `excused` instead."""

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
