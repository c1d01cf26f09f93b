"""Reads an earlier report, as a column of the matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from staticfire.harness.conformance.clause import contract
from staticfire.harness.conformance.outputs.about import About
from staticfire.harness.conformance.outputs.json_output import SCHEMA_VERSION
from staticfire.harness.conformance.result import CaseResult, Outcome
from staticfire.harness.conformance.sites.suite import SuiteResult

NAME = "conformance.json"


class ReportError(ValueError):
    """A report cannot be used; the text is one sentence."""


def read_report(folder: Path) -> tuple[SuiteResult, About]:
    """Read the report in a folder, without the cases of removed clauses. Raises ReportError."""
    path = folder / NAME
    try:
        document = orjson.loads(path.read_bytes())
    except OSError as error:
        raise ReportError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ReportError(f"{path} is not JSON: {error}") from None
    version = document.get("schema_version") if isinstance(document, dict) else None
    if version != SCHEMA_VERSION:
        raise ReportError(f"{path} has schema_version {version!r:.40}; allowed: {SCHEMA_VERSION}")
    try:
        result = SuiteResult(
            target=str(document["target"]),
            results=tuple(_case(one) for one in document["cases"] if one["id"] in contract()),
            floor=int(document["floor"]),
            stopped=str(document["stopped"]),
        )
        about = About(
            profile=str(document["profile"]),
            command=str(document["command"]),
            written=str(document.get("written", "")),
            versions={str(name): str(of) for name, of in document.get("versions", {}).items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ReportError(f"{path} is no report of this suite: {error!r:.200}") from None
    return result, about


def _case(fields: dict[str, Any]) -> CaseResult:
    return CaseResult(
        clause=contract()[fields["id"]],
        outcome=Outcome(fields["outcome"]),
        reason=str(fields["reason"]),
        took_s=float(fields["took_s"]),
        wire_log=tuple(map(str, fields["wire_log"])),
    )
