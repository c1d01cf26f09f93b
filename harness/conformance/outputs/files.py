"""Writes all outputs of a run into one folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orjson

from staticfire.harness.conformance.clause import Level
from staticfire.harness.conformance.outputs.about import About, about_now
from staticfire.harness.conformance.outputs.html_matrix import html_matrix
from staticfire.harness.conformance.outputs.json_output import to_json
from staticfire.harness.conformance.outputs.junit import junit_xml
from staticfire.harness.conformance.outputs.markdown import markdown
from staticfire.harness.conformance.result import Outcome
from staticfire.harness.conformance.sites.suite import SuiteResult


def write_outputs(
    result: SuiteResult,
    folder: Path,
    *,
    profile: str,
    command: str,
    others: Sequence[tuple[SuiteResult, About]] = (),
) -> list[Path]:
    """Write every format of the result. Raises OSError.

    Args:
        command: repeats the run.
        others: further columns of the matrix.
    """
    about = about_now(profile, command)
    texts = {
        "conformance.json": to_json(result, about),
        "junit.xml": junit_xml(result, command=command),
        "summary.md": markdown(result, profile=profile, command=command).encode(),
        "matrix.html": html_matrix([(result, about), *others]).encode(),
        "badge.json": badge(result, profile=profile),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in texts.items():
        (folder / name).write_bytes(data)
    return [folder / name for name in texts]


def badge(result: SuiteResult, *, profile: str) -> bytes:
    """Return a badge for shields.io's `endpoint`, green only if every MUST of the profile ran and passed."""
    musts = [one for one in result.results if one.clause.level is Level.MUST]
    passed = sum(one.outcome is Outcome.PASSED for one in musts)
    is_green = bool(musts) and passed == len(musts) and not result.is_below_floor
    failed = bool(result.broken or result.errors)
    document = {
        "schemaVersion": 1,
        "label": f"RocketMQ {profile}",
        "message": f"{passed}/{len(musts)} MUST",
        "color": "brightgreen" if is_green else "red" if failed else "lightgrey",
    }
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)
