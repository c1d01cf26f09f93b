"""Selects the rows that checkers without a kernel read (`Checker.rows`, `Checker.rows_again`).

If a checker raises in the selection, its verdict is unknown, with the reason; other checkers are not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from staticfire.checkers.engine.engine import Rows, columns_of_rows, failure
from staticfire.checkers.engine.kernel import Checker, Context
from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.model.columns import Columns, Names


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedRows:
    """The rows of one partition that checkers read, by name of the checker."""

    rows: Mapping[str, Rows]
    failed: Mapping[str, str] = field(
        default_factory=dict
    )  # name of the checker -> why it could not select its rows


def select_rows(columns: Columns, context: Context, checkers: Sequence[Checker]) -> SelectedRows:
    """Select the rows of these queues for each checker without a kernel."""
    reads = {of.name: of.rows for of in checkers if of.kernel is None}
    return _asked(reads, lambda name: reads[name](columns, context))


def select_rows_again(
    columns: Columns,
    context: Context,
    checkers: Sequence[Checker],
    gathered: Mapping[str, Columns],
) -> SelectedRows:
    """Select rows again for each checker with `rows_again`; `gathered` has its first selection from all queues."""
    reads = {
        of.name: of.rows_again
        for of in checkers
        if of.rows_again is not None and of.name in gathered
    }
    return _asked(reads, lambda name: reads[name](columns, context, gathered[name]))


def _asked(names: Iterable[str], read: Callable[[str], Columns]) -> SelectedRows:
    rows: dict[str, Rows] = {}
    failed: dict[str, str] = {}
    for name in names:
        try:
            found = read(name)
        except Exception as error:  # any error becomes this checker's verdict
            failed[name] = failure(error)
        else:
            rows[name] = (found.sends, found.deliveries, found.commits)
    return SelectedRows(rows=rows, failed=failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """The rows of a whole history that checkers read, by name of the checker."""

    nothing: Columns
    columns: Mapping[str, Columns]
    failed: Mapping[str, str]

    @classmethod
    def of(cls, names: Names, asked: Sequence[SelectedRows]) -> Read:
        """Join the rows of all partitions and sort them."""
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
        """Replace the rows of the checkers that selected rows again."""
        return replace(
            self,
            columns={**self.columns, **again.columns},
            failed={**again.failed, **self.failed},
        )

    def answer(self, checker: Checker, context: Context) -> Verdict:
        """Return the verdict of a checker without a kernel. Raises any error of the checker."""
        if checker.name in self.failed:
            reason = self.failed[checker.name]
            return Verdict(checker=checker.name, valid="unknown", reason=reason)
        return checker.check(self.columns.get(checker.name, self.nothing), context)
