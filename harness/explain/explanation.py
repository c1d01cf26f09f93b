"""The explanation of a failed run: its cause, the message that shows it, the promise that broke."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count as count_from
from typing import Any, Protocol

from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.guarantees.verdict import Finding, seconds
from staticfire.checkers.model.history import HistoryError, Op
from staticfire.checkers.model.message_ranges import messages_in
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.harness.explain.event import Event
from staticfire.harness.explain.life import Record, life_of
from staticfire.harness.recording.stored_logs import StoredLogs
from staticfire.harness.results.fingerprint import CAUSES, Fingerprint, fingerprint_of

LINES_MAX = 25
EVENTS_MAX = 16  # in text; JSON has all
EVENTS_MIN = 4
BESIDE_MAX = 2  # findings of other causes, in text
FORMAT_VERSION = 2
PROCESS = re.compile(r"process (\d+)(?: on [\w.-]*\w)?")  # with its node, if a checker names it
NUMBER = re.compile(r"\d+")


class Part(Protocol):
    """A further part of an explanation: lines of text, and the JSON value under `name`."""

    @property
    def name(self) -> str: ...

    def lines(self) -> list[str]: ...

    def to_json(self) -> Any: ...


NAMED = 5  # keys in an error


class NothingToExplain(ValueError):
    """The run has nothing to explain; the text gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Numbers of a run, with which the numbers of its violations can be compared.

    Attributes:
        acknowledged: acknowledged sends; each message of a batch counts.
        delivered: deliveries; a message that was delivered twice counts twice.
    """

    acknowledged: int
    delivered: int

    def __str__(self) -> str:
        return f"acknowledged sends {self.acknowledged}, deliveries {self.delivered}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The explanation of one cause.

    Attributes:
        fingerprint: the cause and its leading anomaly.
        consequences: violations of other anomalies of the same cause, with their counts.
        others: violations of other causes, with their counts.
        beside: the first finding of each of these causes, as far as findings were kept, the most frequent ones first.
        count: violations of the leading anomaly.
        witness: the first of them, or the one that the user chose.
        events: the life of its message, oldest first.
        commands: next commands for the user.
        parts: further parts, in the order of the text.
        setting: the campaign and the kinds of groups, in one line; empty: not known.
        load: how much the run sent and delivered; None: not known.
    """

    fingerprint: Fingerprint
    count: int
    consequences: Mapping[str, int]
    others: Mapping[str, int]
    witness: Finding
    events: Sequence[Event]
    commands: Sequence[str]
    parts: Sequence[Part] = ()
    setting: str = ""
    load: Load | None = None
    beside: Sequence[Finding] = ()

    def lines(self) -> list[str]:
        """Return the text: at most 25 lines, unless the parts take more."""
        with_it = _counts(self.consequences)
        beside = _counts(self.others)
        head = [
            f"cause     {self.fingerprint}: {self.count}"
            + (f"; with it {with_it}" if with_it else ""),
            *([f"beside    {beside}"] if beside else []),
            *(f"          {_beside_text(found)}" for found in self.beside[:BESIDE_MAX]),
            *([f"run       {self.setting}"] if self.setting else []),
            *([f"load      {self.load}"] if self.load is not None else []),
            f"witness   {_witness_text(self.witness)}",
        ]
        tail = [
            f"broken    {self.witness.detail}",
            *(line for part in self.parts for line in part.lines()),
            *(f"go on     {command}" for command in self.commands),
        ]
        left = LINES_MAX - len(head) - len(tail) - 1
        return [*head, *_event_lines(self.events, min(max(left, EVENTS_MIN), EVENTS_MAX)), *tail]

    def to_json(self) -> dict[str, Any]:
        return {
            "version": FORMAT_VERSION,
            "cause": self.fingerprint.cause,
            "leading": self.fingerprint.leading,
            "setting": self.setting,
            "load": None if self.load is None else asdict(self.load),
            "count": self.count,
            "consequences": dict(self.consequences),
            "others": dict(self.others),
            "beside": [found.to_json() for found in self.beside],
            "witness": self.witness.to_json(),
            "events": [asdict(event) for event in self.events],
            "commands": list(self.commands),
            **{part.name: part.to_json() for part in self.parts},
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
    stored_logs: StoredLogs | None = None,
    facts: RunFacts | None = None,
    setting: str = "",
) -> Explanation:
    """Explain the first cause.

    Args:
        brokers: nodes by broker name.
        key: key of the message to use as witness; None: the first finding.
        stored_logs: recognises the files of logs.
        facts: say which groups want the message; None: all do.
        setting: see Explanation.

    Raises:
        NothingToExplain: no promise was broken, or none about this message.
    """
    counts = verdict.violations()
    fingerprint = fingerprint_of(counts)
    if fingerprint is None:
        raise NothingToExplain(
            "no promise was broken; `staticfire hunt --until-found` looks for a run that fails"
        )
    family = CAUSES.get(fingerprint.cause, (fingerprint.leading,))
    witness = _witness(verdict, family, key)
    names = {op.process: op.node for op in ops if op.node}
    witness = replace(witness, detail=_with_names(witness.detail, names))
    nodes = brokers.get(witness.broker or "", ())
    same = {name: counts[name] for name in family if name in counts and name != fingerprint.leading}
    others = {name: count for name, count in counts.items() if name not in family}
    beside = [
        replace(found, detail=_with_names(found.detail, names))
        for found in _first_findings(verdict, sorted(others, key=lambda name: -others[name]))
    ]
    return Explanation(
        fingerprint=fingerprint,
        count=counts[fingerprint.leading],
        consequences=same,
        others=others,
        beside=beside,
        witness=witness,
        events=life_of(witness, ops, observations, faults, nodes, stored_logs, facts),
        commands=commands,
        setting=setting,
        load=load_of(ops),
    )


def load_of(ops: Iterable[Op]) -> Load:
    """Count the acknowledged sends and the deliveries of a history. Raises HistoryError."""
    acknowledged = delivered = 0
    for op in ops:
        try:
            if op.f in ("send", "send_many") and op.type == "ok":
                acknowledged += messages_in(op)
            elif op.f in ("consume", "consume_many") and op.type == "invoke":
                delivered += messages_in(op)
        except (KeyError, TypeError, ValueError) as error:
            raise HistoryError(f"op {op.index} is no {op.f}: {op.value!r:.200}") from error
    return Load(acknowledged=acknowledged, delivered=delivered)


def _first_findings(verdict: RunVerdict, anomalies: Iterable[str]) -> Iterator[Finding]:
    """Yield the first violation of each of the anomalies, in their order."""
    firsts: dict[str, Finding] = {}
    for found in verdict.findings():
        if found.judgement == "violation":
            first = firsts.setdefault(found.anomaly, found)
            firsts[found.anomaly] = min(first, found, key=lambda one: one.sort_key()[2:])
    yield from (firsts[anomaly] for anomaly in anomalies if anomaly in firsts)


def _with_names(detail: str, nodes: Mapping[int, str]) -> str:
    """Name the nodes of processes in the text of a finding, unless two of its processes are of one node."""
    numbers = dict.fromkeys(int(found[1]) for found in PROCESS.finditer(detail))
    named = {number: nodes[number] for number in numbers if number in nodes}
    if len({*named.values()}) < len(named):
        return detail
    return PROCESS.sub(lambda found: named.get(int(found[1]), found[0]), detail)


def _some(keys: Sequence[str]) -> str:
    """Return the first NAMED keys, and the number of the others."""
    others = f" and {len(keys) - NAMED} others" if len(keys) > NAMED else ""
    return ", ".join(keys[:NAMED]) + others


def _witness(verdict: RunVerdict, family: Sequence[str], key: str | None) -> Finding:
    """Return the first finding of the most serious anomaly, or of the key. Raises NothingToExplain."""
    found = [finding for finding in verdict.findings() if finding.judgement == "violation"]
    if key is not None:
        keys = sorted({finding.key for finding in found if finding.key is not None})
        found = [finding for finding in found if finding.key == key]
        if not found:
            named = f"; the findings name {_some(keys)}" if keys else ""
            raise NothingToExplain(f"no finding that was kept names the message {key}{named}")
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


def _beside_text(found: Finding) -> str:
    return f"{_witness_text(found)}: {found.detail}"


def _event_lines(events: Sequence[Event], most: int) -> list[str]:
    """Return at most `most` lines of events and one more for each gap, with the number of events left out there.

    Events that differ from earlier and later ones only in their numbers are left out first, then those in the middle.
    """
    left_out: set[int] = set()
    for number in _dispensable(events):
        if len(events) - len(left_out) + max(_gaps(left_out) - 1, 0) <= most:
            break
        left_out.add(number)
    lines = []
    for number, event in enumerate(events):
        if number not in left_out:
            lines.append(event_line(event))
        elif number + 1 not in left_out:
            count = next(n for n in count_from(1) if number - n not in left_out)
            lines.append(f"  {'...':>9}  {count} more event{'s' * (count > 1)}; --json has all")
    return lines


def _dispensable(events: Sequence[Event]) -> Iterator[int]:
    """Yield the numbers of events in the order in which they may be left out."""
    kinds = [NUMBER.sub("", f"{event.where} {event.text}") for event in events]
    middle = (len(events) - 1) / 2
    outwards = sorted(range(len(events)), key=lambda number: abs(number - middle))
    repeated = [
        number
        for number in outwards
        if kinds[number] in kinds[:number] and kinds[number] in kinds[number + 1 :]
    ]
    yield from repeated
    yield from (number for number in outwards if number not in repeated)


def _gaps(left_out: Collection[int]) -> int:
    return sum(number + 1 not in left_out for number in left_out)


def event_line(event: Event) -> str:
    where = f"{event.where}: " if event.where else ""
    return f"  {seconds(event.time_ns):>9}  {where}{event.text}"
