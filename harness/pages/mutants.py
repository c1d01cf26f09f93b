"""Tables of docs/mutants.md, from the figures of `make mutants`."""

from __future__ import annotations

from collections import Counter
from textwrap import shorten

from staticfire.harness.museum.mutants import COUNT, EQUIVALENT_SEEDS, Trial, read_trials
from staticfire.harness.pages.generated import table

REASON_MAX = 80  # characters of what found a mutant


def score_text() -> str:
    """Return the score in sentences."""
    trials = read_trials().trials
    if not trials:
        return "Nothing has been measured yet."
    found = [trial for trial in trials if trial.found_by]
    survived = [trial for trial in trials if not trial.found_by]
    equivalent = [trial for trial in survived if trial.equivalent]
    stages = Counter(trial.found_by.split()[0] for trial in found)
    by_stage = ", ".join(f"{STAGES[stage]} {count}" for stage, count in stages.most_common())
    share = round(100 * len(found) / max(1, len(trials) - len(equivalent)))
    cpu_s = sum(trial.cpu_s for trial in trials)
    lines = [
        f"{len(found)} of {len(trials)} mutants were found, {share} % of those that are not equivalent"
        + (f": {by_stage}." if by_stage else "."),
        f"{len(survived)} survived, {len(equivalent)} of them equivalent."
        f" It took {cpu_s:.0f} CPU s, {cpu_s / len(trials):.0f} a mutant.",
    ]
    if len(trials) < COUNT:
        lines.append(
            f"The sample of {COUNT} is not complete: {COUNT - len(trials)} were not tried yet."
        )
    return "\n".join(lines)


STAGES = {
    "hunt": "by a short hunt",
    "conformance": "by the conformance suite",
    "store": "by crashes of the store",
    "process": "by a system that does not start, or a node that spins",
}


def kinds_table() -> str:
    """Return the table of found and surviving mutants by kind of change."""
    trials = read_trials().trials
    rows = []
    for kind in sorted({trial.kind for trial in trials}):
        of_kind = [trial for trial in trials if trial.kind == kind]
        found = sum(bool(trial.found_by) for trial in of_kind)
        same = sum(not trial.found_by and not trial.differs for trial in of_kind)
        survived = len(of_kind) - found
        rows.append((kind, str(len(of_kind)), str(found), str(survived - same), str(same)))
    return table(
        ("kind", "mutants", "found", "survived, runs differ", "survived, no digest differs"), rows
    )


def survivors_table() -> str:
    """Return the table of survivors."""
    rows = [
        (_where(trial), _change(trial), f"{trial.differs} of {trial.hunts}", trial.equivalent)
        for trial in read_trials().trials
        if not trial.found_by
    ]
    return table(("mutant", "change", "digests that differ", "equivalent, because"), rows)


def _short(reason: str) -> str:
    return shorten(reason, REASON_MAX, placeholder=" ...")


def found_table() -> str:
    """Return the table of found mutants, with what found them."""
    rows = [
        (_where(trial), _change(trial), trial.found_by, _cell(_short(trial.reason)))
        for trial in read_trials().trials
        if trial.found_by
    ]
    return table(("mutant", "change", "found by", "which said"), rows)


def rule_text() -> str:
    """Return the rule by which a survivor counts as equivalent."""
    return (
        f"A survivor counts as equivalent only if no digest differs in {EQUIVALENT_SEEDS} seeds and a reason is written"
        " into the file."
    )


def _where(trial: Trial) -> str:
    """Return the module and the kind of the change; its lines are in another column."""
    return f"`{trial.name.partition(' at ')[0]}`"


def _change(trial: Trial) -> str:
    return " <br> ".join(f"`{_cell(line)}`" for line in trial.change)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("`", "'")
