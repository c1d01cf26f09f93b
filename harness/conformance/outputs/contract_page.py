"""The contract as one page of Markdown: every clause, and whether it has a case."""

from __future__ import annotations

from collections import defaultdict

from staticfire.harness.conformance.case import cases
from staticfire.harness.conformance.clause import Clause, Level, contract

_HEAD = """# The contract

This page states what an implementation of RocketMQ's protocol must do, clause by clause, as `staticfire conform` tests
it. There is no standard. The sources are classes of Apache RocketMQ at tag `rocketmq-all-4.9.8` (below
`org.apache.rocketmq`), its documentation and its bug reports. **must**: clients break without it. **should**:
documented or relied upon. **may**: an optional feature. **quirk**: Java does it, arguably a bug; no target fails for
it. `staticfire conform --contract` prints this page.
"""


def contract_page() -> str:
    """Return the whole page."""
    by_area: defaultdict[str, list[Clause]] = defaultdict(list)
    for clause in contract().values():
        by_area[clause.area].append(clause)
    parts = [_HEAD, _summary()]
    for area, clauses in by_area.items():
        parts.append(f"## {area}\n")
        parts += [_clause(clause) for clause in clauses]
    return "\n".join(parts)


def _summary() -> str:
    clauses = list(contract().values())
    levels = ", ".join(
        f"{sum(clause.level is level for clause in clauses)} {level}" for level in Level
    )
    return f"{len(clauses)} clauses ({levels}); {len(cases())} have a case.\n"


def _clause(clause: Clause) -> str:
    needs = ", ".join(sorted(need for need in clause.needs if need != "wire"))
    marks = [clause.level.value, *([f"needs {needs}"] if needs else [])]
    if clause.id not in cases():
        marks.append("no case yet")
    lines = [f"**{clause.id} {clause.title}** ({'; '.join(marks)}). {clause.text}"]
    if clause.quirk:
        lines.append(f"*{clause.quirk}.*")
    lines.append(f"Source: {clause.source}.\n")
    return "\n".join(lines)
