"""Compares the facts of a finished run with their sources: its campaign, its faults and its history.

Older runs have no checksums that tie the files of a folder together. The promises of a run are in campaign.toml, the
outcome of each fault in faults.jsonl, and the exits of nodes in the history. Facts that contradict these files were
edited or are of another run. `check` refuses them, since by weaker promises everything is valid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from staticfire.checkers.guarantees.facts import FaultFacts, RunFacts
from staticfire.checkers.model.history import Op
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.recording.nemesis import FaultRecord
from staticfire.harness.run_folder.run_folder import (
    CAMPAIGN_FILE,
    FAULTS_FILE,
    VERDICT_FILE,
    RunFolder,
    RunFolderError,
)
from staticfire.harness.systems.registry import system_of
from staticfire.harness.truncated_repr import truncated_repr

# The facts that a campaign alone decides, in every version.
PROMISED = (
    "flush",
    "replication",
    "mode",
    "policies",
    "transient_pool",
    "topics",
    "replica_sets",
    "coordinators",
    "producers",
    "consumers",
    "groups",
    "orderly",
    "broadcasting",
    "gap_max_s",
    "floors",
)
# Derived from ops of clients, which are not held in memory, or from what an inspector could read. Faults, exits and due
# evidence are compared separately.
NOT_COMPARED = frozenset(
    {
        "wanted_tags",
        "wanted_before",
        "filters_changed_ns",
        "clock_uncertainty_ns",
        "faults",
        "exits",
        "due",
        "files_observed",
        "torn",
        "unfinished",
        "unchecked",
        "unread",
    }
)
WITH_FIELDS = frozenset({"timings", "floors", "records", "resets", "struck", "incidents"})
FAULT_FIELDS = ("kind", "targets", "fired_ns", "bitten_ns", "healed_ns", "permanent", "error")
ADVICE = "one of the files was edited or is of another run; copy the folder again from where the run was recorded"


def read_records(folder: RunFolder, campaign: Campaign) -> list[FaultRecord]:
    """Read the outcome of each planned fault. Raises RunFolderError if faults.jsonl is missing or of another plan."""
    path = folder.path / FAULTS_FILE
    planned = {fault.fault_id: (fault.kind, fault.targets) for fault in campaign.plan}
    if planned and not path.exists():
        raise RunFolderError(
            f"{path} is missing: {CAMPAIGN_FILE} plans {len(planned)} faults, and nothing says what they came to; "
            "copy the folder again from where the run was recorded"
        )
    records = folder.read_faults()
    found = {
        record.planned.fault_id: (record.planned.kind, record.planned.targets) for record in records
    }
    for fault_id in sorted(planned.keys() | found.keys()):
        if planned.get(fault_id) != found.get(fault_id):
            raise RunFolderError(
                f"{path} has {_fault_words(found.get(fault_id))} as fault {fault_id}, and {CAMPAIGN_FILE} plans "
                f"{_fault_words(planned.get(fault_id))}: {ADVICE}"
            )
    return records


def expected_facts(
    campaign: Campaign, records: Sequence[FaultRecord], events: Sequence[Op]
) -> RunFacts:
    """Derive the facts from these files. Raises RunFolderError if the evidence of a fault is malformed."""
    try:
        return system_of(campaign).facts(campaign, records, events)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunFolderError(
            f"{FAULTS_FILE} or the history says something of a fault that makes no sense: {error!r}; "
            "copy the folder again from where the run was recorded"
        ) from error


def refuse_contradictions(
    folder: RunFolder, recorded: Mapping[str, object], expected: RunFacts
) -> None:
    """Raise RunFolderError if the recorded facts contradict the campaign, the faults or the history."""
    path, plain = folder.path / VERDICT_FILE, _plain(expected)
    for name in PROMISED:
        if name in recorded and not _fits(recorded[name], plain[name], name):
            raise RunFolderError(
                f"the facts in {path} have {truncated_repr(recorded[name])} as {name}, and {CAMPAIGN_FILE} comes to "
                f"{truncated_repr(plain[name])}: {ADVICE}"
            )
    _refuse_other_faults(path.name, recorded, plain)
    exits = _exits(recorded), _exits(plain)
    for node, time_ns in sorted(exits[0] ^ exits[1]):
        says, silent = (
            ("the facts", "the history")
            if (node, time_ns) in exits[0]
            else ("the history", "the facts")
        )
        raise RunFolderError(
            f"{says} of {folder.path} say that {node} ended by itself at {time_ns / 1e9:.3f} s, and {silent} have no "
            f"such exit: {ADVICE}"
        )


def differences(
    recorded: Mapping[str, Any], expected: RunFacts, *, is_same_version: bool
) -> Iterator[str]:
    """Yield a sentence for each other fact that this version would have written differently.

    For runs without checksums: another version may have written them differently, and did not know all of them.
    """
    plain = _plain(expected)
    if is_same_version and (absent := sorted(plain.keys() - recorded.keys())):
        yield f"the recorded facts lack {', '.join(absent)}: they were edited"
    for name, value in plain.items():
        if name in NOT_COMPARED or name in PROMISED or name not in recorded:
            continue
        if not _fits(recorded[name], value, name):
            yield (
                f"the recorded facts have {truncated_repr(recorded[name])} as {name}, and {CAMPAIGN_FILE} comes to "
                f"{truncated_repr(value)}: they were edited, or are of another run"
            )
    if "due" in recorded:
        for what in sorted({*plain["due"]} - {*recorded["due"]}):
            yield f"the recorded facts do not say that {what} was to be recorded, and {CAMPAIGN_FILE} does"
    by_id = {fault["fault_id"]: fault for fault in plain["faults"]}
    for fault in recorded["faults"]:
        ours = by_id.get(fault["fault_id"], {})
        for name in sorted(fault.keys() & ours.keys() - {*FAULT_FIELDS}):
            if not _fits(fault[name], ours[name], name):
                yield (
                    f"the recorded facts have {truncated_repr(fault[name])} as {name} of fault {fault['fault_id']}, "
                    f"and {FAULTS_FILE} comes to {truncated_repr(ours[name])}: they were edited, or are of another run"
                )


def _refuse_other_faults(name: str, recorded: Mapping[str, Any], plain: Mapping[str, Any]) -> None:
    found, planned = (
        {fault["fault_id"]: fault for fault in of["faults"]} for of in (recorded, plain)
    )
    for fault_id in sorted(found.keys() | planned.keys()):
        if fault_id not in found or fault_id not in planned:
            says, silent = (name, FAULTS_FILE) if fault_id in found else (FAULTS_FILE, name)
            raise RunFolderError(f"{says} has fault {fault_id}, and {silent} has not: {ADVICE}")
        for field in FAULT_FIELDS:
            theirs, ours = found[fault_id].get(field, _DEFAULTS[field]), planned[fault_id][field]
            if theirs != ours:
                raise RunFolderError(
                    f"{name} has {truncated_repr(theirs)} as {field} of fault {fault_id}, and {FAULTS_FILE} has "
                    f"{truncated_repr(ours)}: {ADVICE}"
                )


_DEFAULTS = {
    field: getattr(FaultFacts(fault_id="", kind="", targets=()), field) for field in FAULT_FIELDS
}


def _exits(facts: Mapping[str, Any]) -> set[tuple[str, int]]:
    return {(ended["node"], ended["time_ns"]) for ended in facts["exits"]}


def _plain(facts: RunFacts) -> dict[str, Any]:
    """Return the facts as plain JSON values."""
    plain: dict[str, Any] = orjson.loads(
        orjson.dumps(facts.to_json(), option=orjson.OPT_NON_STR_KEYS)
    )
    return plain


def _fits(recorded: Any, value: Any, name: str) -> bool:
    """Whether a recorded value is the expected one. Older versions wrote fewer fields of an object."""
    if isinstance(recorded, list) and isinstance(value, list) and len(recorded) == len(value):
        return all(_fits(one, other, name) for one, other in zip(recorded, value, strict=True))
    if isinstance(recorded, dict) and isinstance(value, dict) and name in WITH_FIELDS:
        return all(field in value and value[field] == found for field, found in recorded.items())
    return bool(recorded == value)


def _fault_words(planned: tuple[str, Sequence[str]] | None) -> str:
    if planned is None:
        return "nothing"
    kind, targets = planned
    return f"{kind} of {', '.join(targets) or 'no node'}"
