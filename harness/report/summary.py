"""A verdict as Markdown and as JSON: the same words and counts as on the console."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from staticfire.checkers.guarantees.verdict import explain
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.harness.report.causes import Cause, causes_of, loss_sentence
from staticfire.harness.report.verdict_lines import WORDS
from staticfire.harness.truncated_repr import printable

SCHEMA_VERSION = 1
REASONS_MAX = 20


def verdict_json(verdict: RunVerdict) -> dict[str, object]:
    """Return a verdict as every command's `--json` has it: `valid`, its word, counts, causes, reasons for unknown."""
    return {
        "schema_version": SCHEMA_VERSION,
        "valid": verdict.valid,
        "word": WORDS[verdict.valid],
        "mode": verdict.mode,
        "counts": dict(verdict.counts),
        "violations": verdict.violations(),
        "causes": [_cause_json(cause) for cause in causes_of(verdict)],
        "unknown": list(verdict.unanswered()),
        "caveats": list(verdict.caveats),
        "checkers": {of.checker: of.valid for of in verdict.verdicts},
    }


def _cause_json(cause: Cause) -> dict[str, object]:
    return {
        "cause": cause.fingerprint.cause,
        "leading": cause.fingerprint.leading,
        "count": cause.count,
        "consequences": dict(cause.consequences),
        "witness": cause.witness.to_json(),
    }


def verdict_markdown(
    title: str, verdict: RunVerdict, facts: Mapping[str, str], commands: Sequence[str]
) -> str:
    """Return a section for the summary page of a CI run: the verdict, the causes, and commands.

    Args:
        facts: further facts, a line each.
        commands: commands for next steps; without any the section has no such part.
    """
    lines = [
        f"## {escaped(title)}: {WORDS[verdict.valid]}",
        "",
        f"{escaped(loss_sentence(verdict))}.",
    ]
    lines += [f"- {escaped(name)}: {escaped(text)}" for name, text in facts.items()]
    for cause in causes_of(verdict):
        lines += ["", f"### {escaped(cause.headline)}", ""]
        lines += [f"- {escaped(line.strip())}" for line in explain(cause.witness).splitlines()]
    if reasons := verdict.unanswered():
        lines += ["", "### What is unknown", ""]
        lines += [f"- {escaped(reason)}" for reason in reasons[:REASONS_MAX]]
    if verdict.caveats:
        lines += ["", "### Notes", ""]
        lines += [f"- {escaped(caveat)}" for caveat in verdict.caveats[:REASONS_MAX]]
    if commands:
        lines += ["", *fenced(commands)]
    return "\n".join(lines) + "\n"


def fenced(lines: Sequence[str]) -> list[str]:
    """Return a block of code with a fence longer than any in its lines."""
    shown = list(map(printable, lines))
    fence = "```"
    while any(fence in line for line in shown):
        fence += "`"
    return [fence, *shown, fence]


def escaped(text: str) -> str:
    """Return one line of Markdown that shows the text literally."""
    plain = printable(text)
    return "".join(
        f"\\{one}" if one in "\\`*_[]<>|~#" else "&amp;" if one == "&" else one for one in plain
    ).replace("@", "@\u200b")
