"""Writes an issue about a run, with the sections of Apache RocketMQ's form for bug reports."""

from __future__ import annotations

from collections.abc import Sequence

from staticfire.checkers.guarantees.verdict import Finding, explain
from staticfire.harness.explain.event import Event
from staticfire.harness.html_report.recorded_run import RecordedRun
from staticfire.harness.html_report.svg import at_s
from staticfire.harness.report.causes import Cause, causes_of, loss_sentence
from staticfire.harness.report.summary import escaped, fenced
from staticfire.harness.report.verdict_lines import WORDS

EVENTS_MAX = 24
CAMPAIGN_CHARACTERS_MAX = 12_000


def issue_text(run: RecordedRun, events: Sequence[Event], commands: Sequence[str]) -> str:
    """Return the issue as Markdown. `events` are the life of the first witness."""
    causes = causes_of(run.verdict)
    lines = [
        "### Runtime platform environment",
        "",
        escaped(_environment(run)),
        "",
        "### RocketMQ version",
        "",
        escaped(_version(run)),
        "",
        "### Describe the Bug",
        "",
        *_bug(run, causes),
        "",
        "### Steps to Reproduce",
        "",
        *fenced(commands),
        "",
        "### What Did You Expect to See?",
        "",
        escaped(_expected(run, causes)),
        "",
        "### What Did You See Instead?",
        "",
        *(
            fenced([line for cause in causes for line in explain(cause.witness).splitlines()])
            if causes
            else ["Nothing."]
        ),
        *(
            ["", "The life of the message:", "", *fenced(_life(events))]
            if causes and events
            else []
        ),
        "",
        "### Additional Context",
        "",
        *_context(run),
    ]
    return "\n".join(lines) + "\n"


def _environment(run: RecordedRun) -> str:
    versions = run.document.get("versions")
    python = versions.get("python") if isinstance(versions, dict) else None
    where = run.campaign.environment if run.campaign is not None else "a synthetic history"
    return f"{where}, Python {python}" if python else where


def _version(run: RecordedRun) -> str:
    versions = run.document.get("versions")
    own = versions if isinstance(versions, dict) else {}
    commit = f" at {own['commit']}" if "commit" in own else ""
    target = run.campaign.target if run.campaign is not None else "none"
    return f"target {target}; recorded by Staticfire {own.get('staticfire', 'of an unknown version')}{commit}"


def _bug(run: RecordedRun, causes: Sequence[Cause]) -> list[str]:
    lines = [f"Verdict {WORDS[run.verdict.valid]}: {escaped(loss_sentence(run.verdict))}."]
    return [*lines, "", *(f"- {escaped(cause.headline)}" for cause in causes)] if causes else lines


def _expected(run: RecordedRun, causes: Sequence[Cause]) -> str:
    facts = run.facts
    profile = f"{facts.flush} flush, {facts.replication} replication, {run.verdict.mode} mode"
    if not causes:
        return f"The promises of {profile}."
    return f"{_position_text(causes[0].witness)} to keep the promise of {profile}: {causes[0].witness.detail}"


def _position_text(finding: Finding) -> str:
    return f"Message {finding.key}" if finding.key is not None else f"Topic {finding.topic}"


def _life(events: Sequence[Event]) -> list[str]:
    shown = [f"{at_s(event.time_ns):>11}  {event.where}: {event.text}" for event in events]
    if len(shown) <= EVENTS_MAX:
        return shown
    half = EVENTS_MAX // 2
    return [*shown[:half], f"... {len(shown) - 2 * half} more events", *shown[-half:]]


def _context(run: RecordedRun) -> list[str]:
    text = run.campaign_text
    if not text:
        return ["A synthetic history: it has no campaign."]
    if len(text) > CAMPAIGN_CHARACTERS_MAX:
        text = text[:CAMPAIGN_CHARACTERS_MAX] + "\n# ... the rest is in campaign.toml"
    digest = str(run.document.get("digest", ""))[:64]
    return [
        *([f"Digest `{escaped(digest)}`.", ""] if digest else []),
        "<details><summary>campaign.toml</summary>",
        "",
        *fenced(text.split("\n")),
        "",
        "</details>",
    ]
