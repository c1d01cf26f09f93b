"""The result as Markdown, short enough for the summary of a CI job."""

from __future__ import annotations

from collections import Counter, defaultdict

from staticfire.harness.conformance.result import CaseResult, Outcome
from staticfire.harness.conformance.sites.suite import SuiteResult
from staticfire.harness.truncated_repr import printable

NOT_RUN_MAX = 40  # lines


def markdown(result: SuiteResult, *, profile: str, command: str) -> str:
    lines = [
        f"# RocketMQ conformance: {result.target}",
        "",
        f"Profile `{profile}`: {in_words(result.counts())}.",
        *(["", f"**{_text(result.stopped)}**"] if result.stopped else []),
        "",
        "| area | " + " | ".join(Outcome) + " |",
        "|---|" + "---|" * len(Outcome),
        *_areas(result),
        "",
    ]
    failed = [one for one in result.results if one.outcome in (Outcome.FAILED, Outcome.ERROR)]
    if failed:
        lines += ["## Failed", ""]
        for one in failed:
            lines += [
                f"- **{one.clause.id}** ({one.clause.level}) {_text(one.clause.title)}: {_text(one.reason)}",
                f"  - clause: {_text(one.clause.text)} ({_text(one.clause.source)})",
                f"  - repeat: `{command} --select {one.clause.id}`",
            ]
        lines.append("")
    skipped = [one for one in result.results if one.outcome is Outcome.NOT_RUN]
    if skipped:
        lines += ["## Not run", ""]
        lines += [f"- {one.clause.id}: {_text(one.reason)}" for one in skipped[:NOT_RUN_MAX]]
        if len(skipped) > NOT_RUN_MAX:
            lines.append(f"- and {len(skipped) - NOT_RUN_MAX} more")
        lines.append("")
    return "\n".join(lines)


def in_words(counts: Counter[Outcome]) -> str:
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome if counts[outcome])


def _areas(result: SuiteResult) -> list[str]:
    by_area: defaultdict[str, list[CaseResult]] = defaultdict(list)
    for one in result.results:
        by_area[one.clause.area].append(one)
    return [
        f"| {area} | "
        + " | ".join(str(sum(one.outcome is outcome for one in found)) for outcome in Outcome)
        + " |"
        for area, found in by_area.items()
    ]


def _text(text: str) -> str:
    """Return the text as one line, with Markdown's special characters escaped."""
    flat = printable(" ".join(text.split()))
    for mark in "\\`*_<>|[]":
        flat = flat.replace(mark, f"\\{mark}")
    return flat
