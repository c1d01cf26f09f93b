"""Selects the rows that checkers without a kernel read (`Checker.rows`, `Checker.rows_again`).

One that raises on the way is unknown, with the reason, and hides no other checker's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from staticfire.checkers.engine.engine import Rows, columns_of_rows, failure
from staticfire.checkers.engine.kernel import Checker, Context
from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.model.columns import Columns, Names


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What checkers read of one partition, by their names."""

    rows: Mapping[str, Rows]
    failed: Mapping[str, str] = field(
        default_factory=dict
    )  # why a checker could not say what it reads


def rows_asked_for(columns: Columns, context: Context, checkers: Sequence[Checker]) -> Asked:
    """What checkers that are no kernels read of these queues."""
    reads = {of.name: of.rows for of in checkers if of.kernel is None}
    return _asked(reads, lambda name: reads[name](columns, context))


def rows_asked_for_again(
    columns: Columns,
    context: Context,
    checkers: Sequence[Checker],
    gathered: Mapping[str, Columns],
) -> Asked:
    """What they read when they know what all queues gave them; `gathered` has those that ask again."""
    reads = {
        of.name: of.rows_again
        for of in checkers
        if of.rows_again is not None and of.name in gathered
    }
    return _asked(reads, lambda name: reads[name](columns, context, gathered[name]))


def _asked(names: Iterable[str], read: Callable[[str], Columns]) -> Asked:
    rows: dict[str, Rows] = {}
    failed: dict[str, str] = {}
    for name in names:
        try:
            found = read(name)
        except Exception as error:  # whatever it is: it becomes this checker's answer
            failed[name] = failure(error)
        else:
            rows[name] = (found.sends, found.deliveries, found.commits)
    return Asked(rows=rows, failed=failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What checkers read of a whole history, by their names."""

    nothing: Columns
    columns: Mapping[str, Columns]
    failed: Mapping[str, str]

    @classmethod
    def of(cls, names: Names, asked: Sequence[Asked]) -> Read:
        """Of all partitions, in their order."""
        failed = {name: reason for of in reversed(asked) for name, reason in of.failed.items()}
        checkers = dict.fromkeys(name for of in asked for name in of.rows if name not in failed)
        return cls(
            nothing=columns_of_rows(names, []),
            columns={
                name: columns_of_rows(names, [of.rows[name] for of in asked]) for name in checkers
            },
            failed=failed,
        )

    def of_those_that_ask_again(self, checkers: Sequence[Checker]) -> dict[str, Columns]:
        return {
            of.name: self.columns[of.name]
            for of in checkers
            if of.rows_again and of.name in self.columns
        }

    def then(self, again: Read) -> Read:
        """With what was read when they were asked again."""
        return replace(
            self,
            columns={**self.columns, **again.columns},
            failed={**again.failed, **self.failed},
        )

    def answer(self, checker: Checker, context: Context) -> Verdict:
        """The answer of a checker that is no kernel; it may raise."""
        if checker.name in self.failed:
            reason = self.failed[checker.name]
            return Verdict(checker=checker.name, valid="unknown", reason=reason)
        return checker.check(self.columns.get(checker.name, self.nothing), context)
