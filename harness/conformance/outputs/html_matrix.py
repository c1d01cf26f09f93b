"""A page with a column per target and a row per case: failures first, the others by area. It loads no resources."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from staticfire.harness.conformance.clause import Clause, Level
from staticfire.harness.conformance.outputs.about import SENTENCES, About, verdict_of
from staticfire.harness.conformance.result import CaseResult, Outcome
from staticfire.harness.conformance.sites.suite import SuiteResult
from staticfire.harness.truncated_repr import printable

SIGNS = {
    Outcome.PASSED: "✓",
    Outcome.FAILED: "✗",
    Outcome.QUIRK: "~",
    Outcome.EXPECTED: "(✗)",
    Outcome.ERROR: "!",
    Outcome.NOT_RUN: "–",
}
VERDICT_SIGNS = dict(zip(SENTENCES, "✔✖?!", strict=True))
BAD = (Outcome.FAILED, Outcome.ERROR)
Cells = Sequence[CaseResult | None]
Group = tuple[str, bool, Sequence[tuple[Clause, Cells]]]


def html_matrix(reports: Sequence[tuple[SuiteResult, About]]) -> str:
    """Return the page. The first report is the leading target; a case that a target did not run is empty there."""
    clauses = {one.clause.id: one.clause for result, _ in reports for one in result.results}
    by_id = [{one.clause.id: one for one in result.results} for result, _ in reports]
    rows = [(clause, [of.get(clause.id) for of in by_id]) for clause in clauses.values()]
    style, script = _file("matrix.css"), _file("matrix.js")
    return _template().render(
        targets=[(result, about, verdict_of(result), result.counts()) for result, about in reports],
        groups=list(_groups(rows)),
        outcomes=list(Outcome),
        areas=list(dict.fromkeys(clause.area for clause, _ in rows)),
        signs=SIGNS,
        verdict_signs=VERDICT_SIGNS,
        sentences=SENTENCES,
        bad=BAD,
        cases=len(rows),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
    )


def _groups(rows: Sequence[tuple[Clause, Cells]]) -> Iterator[Group]:
    """Yield (title, whether it holds failures, rows): failures, MUST before MAY, then the other cases by area."""
    failed = [row for row in rows if _is_bad(row[1])]
    if failed:
        levels = list(Level)
        yield "Failed", True, sorted(failed, key=lambda row: levels.index(row[0].level))
    for area in dict.fromkeys(clause.area for clause, _ in rows):
        found = [row for row in rows if row[0].area == area and not _is_bad(row[1])]
        if found:
            yield area, False, found


def _is_bad(cells: Cells) -> bool:
    return any(cell is not None and cell.outcome in BAD for cell in cells)


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("staticfire.harness.conformance.outputs"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["printable"] = lambda text: "\n".join(map(printable, text.split("\n")))
    return environment.get_template("matrix.html")


@cache
def _file(name: str) -> str:
    folder = resources.files("staticfire.harness.conformance.outputs") / "templates"
    return (folder / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the hash by which the content security policy of the page admits its own style or script."""
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()
