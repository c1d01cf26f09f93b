"""The evidence that a run had to record (`RunFacts.due`). A checker without its evidence is unknown, not valid.

`RunFacts.due` names kinds of op. For observations there are other facts: `disks_observed`, `routes_observed` and
`files_observed`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from staticfire.checkers.engine.kernel import Checker, Context
from staticfire.checkers.engine.observed import NOT_OBSERVED
from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.model.timeline import Timeline

CONTENTS = "contents"  # fields of deliveries
TRY_READ = "try_read"
# The kind of op, or its fields, that each checker needs.
NEEDS = {
    "look_ups": "look_up",
    "recovery": "look_up",
    "groups": "assign",
    "subscriptions": "open",
    "requests": "answer",
    "transactions": "check_back",
    "offsets": "commit",
    "contents": CONTENTS,
    "readability": TRY_READ,
}
# the count of a verdict that is 0 without it
_COUNTED = {"commit": "commits", CONTENTS: "identified"}
_SEEN: dict[str, Callable[[Timeline], object]] = {
    "look_up": lambda timeline: timeline.look_ups,
    "assign": lambda timeline: timeline.ownership,
    "open": lambda timeline: timeline.subscriptions,
    "answer": lambda timeline: timeline.answers,
    "check_back": lambda timeline: timeline.check_backs,
    TRY_READ: lambda timeline: timeline.tried_reads,
}


def lacks_evidence(checker: Checker, context: Context) -> bool:
    """Whether the history lacks all evidence that this checker needs, although the run had to record it."""
    needed = NEEDS.get(checker.name)
    seen = _SEEN.get(needed or "")
    return needed in context.facts.due and seen is not None and not seen(context.timeline)


def with_evidence(verdict: Verdict, checker: Checker, context: Context) -> Verdict:
    """Return the verdict, but unknown instead of valid if the history lacks the evidence that it had to have."""
    needed = NEEDS.get(checker.name)
    counted = _COUNTED.get(needed or "")
    nothing = counted is not None and not verdict.counts.get(counted, 0)
    absent = lacks_evidence(checker, context) or (needed in context.facts.due and nothing)
    if not absent or verdict.valid is not True:
        return verdict
    return replace(verdict, valid="unknown", reason=f"{NOT_OBSERVED}: the history has no {needed}")
