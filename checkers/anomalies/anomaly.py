"""The declaration of an anomaly, and the checks of a declaration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NoReturn, get_args

Answer = Literal["violation", "allowed", "informational"]  # the values of Judgement
_NAME = re.compile(r"[a-z]+(_[a-z]+)*|G(0|1a|1b|1c|-single|2)(-process|-realtime)?")
_TEXTS = ("title", "meaning", "promise", "example")


class AnomalyError(ValueError):
    """The declaration of an anomaly is wrong; the text is one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """The declaration of one anomaly.

    Attributes:
        name: its name in verdicts.
        title: a few words for a heading.
        meaning: its definition, in one line.
        promise: the promise that it breaks, as a sentence.
        example: a history in the language of the tests (as code), or one line in words.
        test: path of a test that injects it; empty: the test of the module that finds it does.
        hardened, faithful: its judgement in each mode without an excuse.
        by_damage: its judgement depends on the profile and on the damage to the nodes that held the message
            (`checkers/guarantees/promises.py`), and not on `hardened` and `faithful`.
        excuse: the circumstance that gives it the judgement `excused` instead; empty: there is none. Excuses by faults
            are rows of `checkers/guarantees/excuses/excuse_table.py`.
        excused: its judgement with this excuse.
    """

    name: str
    title: str
    meaning: str
    promise: str
    example: str
    test: str = ""
    hardened: Answer = "violation"
    faithful: Answer = "violation"
    by_damage: bool = False
    excuse: str = ""
    excused: Answer = "allowed"


def check_anomaly(anomaly: Anomaly) -> None:
    """Raise AnomalyError for the first part of a declaration that is wrong or missing."""
    if not _NAME.fullmatch(anomaly.name):
        _wrong(anomaly, "name", anomaly.name, "small letters with underscores, such as log_hole")
    for text in _TEXTS:
        if not getattr(anomaly, text).strip():
            _wrong(anomaly, text, getattr(anomaly, text), "a text")
    for mode in ("hardened", "faithful", "excused"):
        if getattr(anomaly, mode) not in get_args(Answer):
            _wrong(anomaly, mode, getattr(anomaly, mode), f"one of {', '.join(get_args(Answer))}")
    if not anomaly.promise.endswith("."):
        _wrong(anomaly, "promise", anomaly.promise, "a sentence")
    if anomaly.by_damage and (anomaly.excuse or anomaly.hardened != "violation"):
        what = "False for one that has an excuse or is no violation by itself"
        _wrong(anomaly, "by_damage", anomaly.by_damage, what)


def by_name(anomalies: Iterable[Anomaly]) -> Mapping[str, Anomaly]:
    """Return the anomalies by name. Raises AnomalyError for a wrong declaration or a duplicate name."""
    found: dict[str, Anomaly] = {}
    for anomaly in anomalies:
        check_anomaly(anomaly)
        if anomaly.name in found:
            raise AnomalyError(
                f"two anomalies have the name {anomaly.name!r}; allowed: one of each"
            )
        found[anomaly.name] = anomaly
    return found


def check_found(declared: Iterable[str], found_by: Mapping[str, Iterable[str]]) -> None:
    """Raise AnomalyError unless exactly one checker finds each declared anomaly, and no checker finds another one.

    Args:
        declared: names of anomalies.
        found_by: checker -> the anomalies that it finds.
    """
    finder: dict[str, str] = {}
    for checker, anomalies in found_by.items():
        for anomaly in anomalies:
            if anomaly in finder:
                both = f"{finder[anomaly]} and {checker}"
                raise AnomalyError(f"anomaly {anomaly} is found by {both}; allowed: one checker")
            finder[anomaly] = checker
    if undeclared := finder.keys() - set(declared):
        name = min(undeclared)
        raise AnomalyError(f"anomaly {name} of checker {finder[name]} is not declared")
    if unfound := set(declared) - finder.keys():
        raise AnomalyError(f"anomaly {min(unfound)} is declared, and no checker finds it")


def _wrong(anomaly: Anomaly, attribute: str, value: object, allowed: str) -> NoReturn:
    raise AnomalyError(
        f"{attribute} of anomaly {anomaly.name} is {value!r:.80}; allowed: {allowed}"
    )
