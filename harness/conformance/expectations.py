"""Expected failures of a target: a TOML file, strict both ways.

    [[expect]]
    id = "RMQ-NS-06"
    reason = "the whole broker name goes (R32)"
    issue = "https://example.org/issues/1"
    expires = 2027-06-30

An expected failure that passes is a failure, and so is an entry after its day: stale entries would hide new bugs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from staticfire.harness.conformance.clause import contract
from staticfire.harness.conformance.result import CaseResult, Outcome

_FIELDS = {"id": str, "reason": str, "issue": str, "expires": date}


class ExpectationError(ValueError):
    """A file of expectations cannot be used; the text is one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    id: str
    reason: str
    issue: str
    expires: date  # the last day on which it holds


def read_expectations(path: Path) -> dict[str, Expectation]:
    """Return the expectations by clause. Raises ExpectationError."""
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))["expect"]
    except OSError as error:
        raise ExpectationError(f"{path} cannot be read: {error.strerror}") from None
    except KeyError:
        raise ExpectationError(f"{path} has no [[expect]] entry") from None
    except ValueError as error:
        raise ExpectationError(f"{path} is not valid TOML: {error}") from None
    found: dict[str, Expectation] = {}
    for expectation in _expectations(entries, path):
        if expectation.id in found:
            raise ExpectationError(f"{path}: {expectation.id} is there twice")
        found[expectation.id] = expectation
    return found


def _expectations(entries: object, path: Path) -> Iterator[Expectation]:
    if not isinstance(entries, list):
        raise ExpectationError(f"{path}: expect is no list of tables")
    for fields in entries:
        for name, kind in _FIELDS.items():
            if not isinstance(fields, dict) or type(fields.get(name)) is not kind:
                raise ExpectationError(
                    f"{path}: an entry lacks {name} or has it not as a {kind.__name__}: {fields!r:.200}"
                )
        if fields["id"] not in contract():
            raise ExpectationError(f"{path}: there is no clause {fields['id']!r:.80}")
        unknown = sorted(set(fields) - set(_FIELDS))
        if unknown:
            raise ExpectationError(
                f"{path}: unknown field {unknown[0]!r:.80}; there are: {', '.join(_FIELDS)}"
            )
        yield Expectation(**fields)


def apply_expectations(
    result: CaseResult, expectations: Mapping[str, Expectation], today: date
) -> CaseResult:
    """Apply the file to a result: an expected failure, an unexpected pass, or an expired entry."""
    expectation = expectations.get(result.clause.id)
    if expectation is None:
        return result
    if expectation.expires < today and result.outcome is Outcome.QUIRK:
        reason = f"the expectation expired on {expectation.expires}: {result.reason}"
        return replace(result, outcome=Outcome.FAILED, reason=reason)
    if result.outcome not in (Outcome.PASSED, Outcome.FAILED):
        return result
    if result.outcome is Outcome.PASSED:
        reason = f"passed, although it is expected to fail: {expectation.reason}"
        return replace(result, outcome=Outcome.FAILED, reason=reason)
    if expectation.expires < today:
        reason = f"the expectation expired on {expectation.expires}: {result.reason}"
        return replace(result, reason=reason)
    reason = f"{expectation.reason} ({expectation.issue}): {result.reason}"
    return replace(result, outcome=Outcome.EXPECTED, reason=reason)
