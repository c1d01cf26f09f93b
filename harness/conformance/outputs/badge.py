"""A badge in the format of shields.io's `endpoint`."""

from __future__ import annotations

import orjson

from staticfire.harness.conformance.clause import Level
from staticfire.harness.conformance.result import Outcome
from staticfire.harness.conformance.sites.suite import SuiteResult


def badge(result: SuiteResult, *, profile: str) -> bytes:
    """Return the badge, green only if every MUST of the profile ran and passed."""
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
