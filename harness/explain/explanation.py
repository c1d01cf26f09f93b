"""The explanation of a failed run: its cause, the message that shows it, the promise that broke."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from staticfire.checkers.guarantees.verdict import Finding, seconds
from staticfire.checkers.model.history import Op
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.harness.explain.life import Event, Record, life_of
from staticfire.harness.results.fingerprint import CAUSES, Fingerprint, fingerprint_of

EVENTS_MAX = 16  # in text; JSON has all
FORMAT_VERSION = 1


class NothingToExplain(ValueError):
    """There is nothing to explain. The text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One cause.

    Attributes:
        fingerprint: the cause and its leading anomaly.
        consequences: violations of other anomalies of the same cause, with their counts.
        others: violations of other causes, with their counts.
        count: violations of the leading anomaly.
        witness: the first of them, or the one that was asked for.
        events: the life of its message, oldest first.
        commands: that go on from here.
    """

    fingerprint: Fingerprint
    count: int
    consequences: Mapping[str, int]
    others: Mapping[str, int]
    witness: Finding
    events: Sequence[Event]
    commands: Sequence[str]

    def lines(self) -> list[str]:
        """At most 25 lines."""
        with_it = _counts(self.consequences)
        beside = _counts(self.others)
        return [
            f"cause     {self.fingerprint}: {self.count}"
            + (f"; with it {with_it}" if with_it else ""),
            *([f"beside    {beside}"] if beside else []),
            f"witness   {_witness_text(self.witness)}",
            *_event_lines(self.events),
            f"broken    {self.witness.detail}",
            *(f"go on     {command}" for command in self.commands),
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "version": FORMAT_VERSION,
            "cause": self.fingerprint.cause,
            "leading": self.fingerprint.leading,
            "count": self.count,
            "consequences": dict(self.consequences),
            "others": dict(self.others),
            "witness": self.witness.to_json(),
            "events": [asdict(event) for event in self.events],
            "commands": list(self.commands),
        }


def explanation_of(
    verdict: RunVerdict,
    ops: Sequence[Op],
    observations: Sequence[Record],
    faults: Sequence[Record],
    brokers: Mapping[str, Sequence[str]],
    *,
    commands: Sequence[str] = (),
    key: str | None = None,
) -> Explanation:
    """The explanation of the first cause.

    Args:
        brokers: nodes by broker name.
        key: of the message that is to be the witness; None: the first.

    Raises:
        NothingToExplain: no promise was broken, or not to this message.
    """
    counts = verdict.violations()
    fingerprint = fingerprint_of(counts)
    if fingerprint is None:
        raise NothingToExplain("no promise was broken")
    family = CAUSES.get(fingerprint.cause, (fingerprint.leading,))
    witness = _witness(verdict, family, key)
    same = {name: counts[name] for name in family if name in counts and name != fingerprint.leading}
    return Explanation(
        fingerprint=fingerprint,
        count=counts[fingerprint.leading],
        consequences=same,
        others={name: count for name, count in counts.items() if name not in family},
        witness=witness,
        events=life_of(witness, ops, observations, faults, brokers.get(witness.broker or "", ())),
        commands=commands,
    )


def _witness(verdict: RunVerdict, family: Sequence[str], key: str | None) -> Finding:
    """The first finding of the most serious anomaly. Raises NothingToExplain."""
    found = [finding for finding in verdict.findings() if finding.judgement == "violation"]
    if key is not None:
        found = [finding for finding in found if finding.key == key]
        if not found:
            raise NothingToExplain(f"no finding that was kept names the message {key}")
    ranks = {name: number for number, name in enumerate(family)}
    return min(found, key=lambda one: (ranks.get(one.anomaly, len(ranks)), *one.sort_key()[2:]))


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _witness_text(witness: Finding) -> str:
    parts = [
        witness.key or "",
        witness.topic or "",
        witness.broker or "",
        f"queue {witness.queue}" if witness.queue is not None else "",
        f"offset {witness.queue_offset}" if witness.queue_offset is not None else "",
        f"group {witness.group}" if witness.group is not None else "",
        f"{witness.anomaly} at {seconds(witness.time_ns)}",
    ]
    return "  ".join(filter(None, parts))


def _event_lines(events: Sequence[Event]) -> list[str]:
    half = EVENTS_MAX // 2
    if len(events) <= EVENTS_MAX:
        return list(map(_event_line, events))
    between = f"  {'...':>9}  {len(events) - 2 * half} more events; --json has all"
    return [*map(_event_line, events[:half]), between, *map(_event_line, events[-half:])]


def _event_line(event: Event) -> str:
    where = f"{event.where}: " if event.where else ""
    return f"  {seconds(event.time_ns):>9}  {where}{event.text}"
