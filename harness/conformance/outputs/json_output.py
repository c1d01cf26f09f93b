"""The result as JSON, with the version of its schema."""

from __future__ import annotations

import orjson

from staticfire.harness.conformance.outputs.about import About, verdict_of
from staticfire.harness.conformance.result import CaseResult
from staticfire.harness.conformance.sites.suite import SuiteResult

SCHEMA_VERSION = 1


def to_json(result: SuiteResult, about: About) -> bytes:
    """Return the document. Fields may be added; a renamed field needs a new `schema_version`."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "target": result.target,
        "verdict": verdict_of(result),
        "profile": about.profile,
        "command": about.command,
        "written": about.written,
        "versions": dict(about.versions),
        "counts": {outcome.value: count for outcome, count in sorted(result.counts().items())},
        "floor": result.floor,
        "stopped": result.stopped,
        "cases": [_case(one, about.command) for one in result.results],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _case(result: CaseResult, command: str) -> dict[str, object]:
    clause = result.clause
    return {
        "id": clause.id,
        "area": clause.area,
        "level": clause.level.value,
        "needs": sorted(need.value for need in clause.needs),
        "title": clause.title,
        "outcome": result.outcome.value,
        "reason": result.reason,
        "took_s": round(result.took_s, 6),
        "clause": clause.text,
        "source": clause.source,
        "repeat": f"{command} --select {clause.id}",
        "wire_log": list(result.wire_log),
    }
