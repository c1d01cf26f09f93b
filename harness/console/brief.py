"""A run and its verdict in few lines: ten for a valid run, twenty for another one, plus diagnoses.

The verdict is first, then the story of each cause, then counts of the run, then commands for next steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from staticfire.checkers.guarantees.facts import replication_text
from staticfire.checkers.guarantees.verdict import explain
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.console.terminal import is_terminal, verdict_word, width, wrapped
from staticfire.harness.report.causes import Cause, causes_of, loss_sentence
from staticfire.harness.report.quantities import duration, with_noun
from staticfire.harness.report.verdict_lines import WORDS, explanations
from staticfire.harness.truncated_repr import printable

VALID_LINES, OTHER_LINES = 10, 20
CAUSES_MAX = 3  # causes shown in full; a line has the counts of the others
REASONS_MAX = 4
KINDS_MAX = 8  # kinds of fault listed by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """The lines below a verdict. `head` and `tail` are always printed; the causes get the remaining lines."""

    head: Sequence[str] = ()
    tail: Sequence[str] = ()
    commands: Sequence[str] = ()  # never wrapped: a line is a command
    title: str = ""
    diagnoses: Sequence[str] = ()  # below the whole verdict, besides the lines that are allowed


def brief_lines(verdict: RunVerdict, brief: Brief) -> list[str]:
    """Return all lines, the verdict first. They hold no control characters but the verdict's colour."""
    columns = width()
    first, *rest = wrapped(printable(_answer(verdict, brief.title)), columns)
    head = [line for text in brief.head for line in wrapped(text, columns, lines_max=2)]
    tail = [line for text in brief.tail for line in wrapped(text, columns, lines_max=2)]
    limit = VALID_LINES if verdict.valid is True else OTHER_LINES
    room = limit - 1 - len(rest) - len(head) - len(tail) - len(brief.commands)
    body = _body(verdict, columns, max(room, 2))
    diagnoses = [line for text in brief.diagnoses for line in wrapped(f"diagnosis {text}", columns)]
    lines = [*rest, *diagnoses, *head, *body, *tail, *brief.commands]
    word = WORDS[verdict.valid]
    return [first.replace(word, verdict_word(word), 1), *map(printable, lines)]


def _answer(verdict: RunVerdict, title: str) -> str:
    mode = "" if verdict.mode == "hardened" else f", {verdict.mode} mode"
    answer = f"verdict   {WORDS[verdict.valid]}{mode}"
    return f"{answer}  {title}" if title else answer


def _body(verdict: RunVerdict, columns: int, room: int) -> list[str]:
    """Return causes, reasons and notes, in at most `room` lines."""
    lines: list[str] = []
    causes = causes_of(verdict)
    reasons = [f"unknown   {reason}" for reason in verdict.unanswered()]
    notes = [f"note      {caveat}" for caveat in verdict.caveats]
    kept = 2 * bool(reasons) + 2 * bool(notes)  # lines reserved for reasons and notes
    blocks = [_cause_lines(cause, columns) for cause in causes[:CAUSES_MAX]]
    printed = 0
    for block in blocks:
        more = len(causes) > printed + 1
        if printed and len(lines) + len(block) + more + kept > room:
            break
        lines += block
        printed += 1
    if others := causes[printed:]:
        counts = ", ".join(f"{cause.fingerprint} {cause.count:,}" for cause in others)
        lines += wrapped(f"and       {counts}", columns, lines_max=2)
    lines += _few(reasons, columns, min(REASONS_MAX, max(room - len(lines), 1)), "reasons")
    lines += _few(notes, columns, max(min(2, room - len(lines)), 1), "notes")
    return lines


def _few(texts: Sequence[str], columns: int, room: int, what: str) -> list[str]:
    """Return as many texts as there is room for, each in one or two lines, and the number of the others."""
    lines: list[str] = []
    for number, text in enumerate(texts):
        block = wrapped(text, columns, lines_max=2)
        is_last = number == len(texts) - 1
        if lines and len(lines) + len(block) + (not is_last) > room:
            return [*lines, f"          {len(texts) - number} more {what}: --verbose has all"]
        lines += block
    return lines


def _cause_lines(cause: Cause, columns: int) -> list[str]:
    """Return the cause with its counts, the whole witness, and the promise."""
    what, *said = explain(cause.witness).splitlines()
    promise = "  " + " ".join(map(str.strip, said))  # a client's error may hold several lines
    return [
        *wrapped(f"cause     {cause.headline}", columns, lines_max=2),
        *wrapped(what, columns, indent=2),
        *wrapped(promise, columns, indent=4, lines_max=3 if is_terminal() else None),
    ]


def campaign_title(campaign: Campaign, unit: str, mode_text: str) -> str:
    """Return the campaign in a few words."""
    c = campaign
    parts = [f"seed {c.seed}, workload {c.workload}, {c.load_s:g} {unit}"]
    parts += [f"environment {c.environment}"] if c.environment != "simulation" else []
    parts += [f"target {c.target}"] if c.target != "own" else []
    parts += [f"client {c.client}"] if c.client != "own" else []
    text = ", ".join(parts) + mode_text
    return f"{text}  DEFECT {c.defect}" if c.defect else text


def cluster_line(campaign: Campaign) -> str:
    return f"cluster   {cluster_text(campaign)}"


def cluster_text(campaign: Campaign) -> str:
    """Return the nodes, flush and replication of a campaign."""
    c = campaign
    counts = c.followers
    slaves = " and ".join(map(str, counts)) if len(counts) < 4 else f"{sum(counts)}"
    masters = f"{with_noun(c.leaders, 'master')} with {slaves} slave{'' if slaves == '1' else 's'}"
    return (
        f"{with_noun(c.coordinators, 'name server')}, {masters}, {c.flush} flush, {replication_text(c.replication)}; "
        f"{with_noun(c.producers, 'producer')}, {with_noun(c.consumers, 'consumer')}"
    )


def counts_line(verdict: RunVerdict) -> str:
    """Return the verdict's counts of messages."""
    counts = verdict.counts
    unclear = counts.get("unknown", 0) + counts.get("weak", 0)
    return (
        f"messages  {loss_sentence(verdict)}; {unclear:,} unclear, {counts.get('failed', 0):,} refused; "
        f"{counts.get('deliveries', 0):,} deliveries"
    )


def latency_line(verdict: RunVerdict) -> list[str]:
    """Return the latency of sends and the lag of the first group; empty without measurements."""
    found = next((of.counts for of in verdict.verdicts if of.checker == "latency"), {})
    parts = []
    if "send_p50_us" in found:
        parts.append(
            f"sends median {duration(found['send_p50_us'])}, p99 {duration(found['send_p99_us'])}"
        )
    lags = [name for name in found if name.startswith("lag_") and name.endswith("_p99_us")]
    if lags:
        name = lags[0]
        group = name.removeprefix("lag_").removesuffix("_p99_us")
        parts.append(f"to a listener of {group} p99 {duration(found[name])}")
    return [f"latency   {'; '.join(parts)}"] if parts else []


def checkers_line(verdict: RunVerdict) -> str:
    """Return the checkers' answers, and the number of coverage marks that the run reached."""
    answers = [of.valid for of in verdict.verdicts]
    parts = [f"{answers.count(True)} found their promises kept"]
    parts += [f"{answers.count(False)} broken"] if False in answers else []
    unknown = sum(answer == "unknown" for answer in answers)
    parts += [f"{unknown} cannot say"] if unknown else []
    parts += [f"{len(verdict.not_applicable)} had no question"] if verdict.not_applicable else []
    reached = sum(1 for count in verdict.coverage.values() if count)
    marks = f"; {reached} of {len(verdict.coverage)} coverage marks" if verdict.coverage else ""
    return f"checkers  {', '.join(parts)}{marks}"


def faults_line(bitten: Sequence[str], missed: Sequence[str], unfired: Sequence[str]) -> str:
    """Return the kinds of fault by outcome; of many that bit, the first ones."""
    names = list(bitten)
    if len(names) > KINDS_MAX:
        names = [*names[: KINDS_MAX - 1], f"{len(names) - KINDS_MAX + 1} more"]
    text = f"faults    {with_noun(len(bitten), 'kind')} proven"
    text += f": {', '.join(names)}" if names else ""
    text += f"; never bit: {', '.join(missed)}" if missed else ""
    return text + (f"; never fired: {', '.join(unfired)}" if unfired else "")


def verdict_brief(verdict: RunVerdict) -> list[str]:
    """Return the lines of a repeated judgement, without a campaign and without commands."""
    brief = Brief(
        tail=[counts_line(verdict), *latency_line(verdict), checkers_line(verdict)],
        diagnoses=explanations(verdict),
    )
    return brief_lines(verdict, brief)
