"""Reads the documents of a run for pages: campaign, verdict and faults, bounded and unverified."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence

import orjson

from staticfire.checkers.guarantees.former_names import (
    ANOMALIES_RENAMED,
    VERDICT_VERSION,
    VERSIONS_READ,
    with_current_names,
)
from staticfire.harness.serve.folder import NotServed, ServedFolder
from staticfire.harness.serve.loose import table
from staticfire.harness.truncated_repr import truncated_repr

CAMPAIGN_BYTES_MAX = 4 << 20
VERDICT_BYTES_MAX = 64 << 20
FAULT_BYTES_MAX = 16 << 20
FAULTS_MAX = 2000


def read_campaign(folder: ServedFolder, path: Sequence[str]) -> Mapping[str, object]:
    """Return the options of a run; none without a readable campaign."""
    try:
        data = folder.read((*path, "campaign.toml"), CAMPAIGN_BYTES_MAX)
        return table(tomllib.loads(data.decode()).get("campaign"))
    except (NotServed, ValueError, RecursionError):
        return {}


def read_verdict(folder: ServedFolder, path: Sequence[str]) -> tuple[Mapping[str, object], str]:
    """Return verdict.json, and why it cannot be read. Both are empty for a run without it."""
    name = (*path, "verdict.json")
    if not folder.has(name):
        return {}, ""
    try:
        document = table(orjson.loads(folder.read(name, VERDICT_BYTES_MAX)))
    except NotServed as error:
        return {}, str(error)
    except ValueError as error:
        return {}, f"verdict.json is not JSON: {error}"
    if not isinstance(document.get("verdict"), dict):
        return {}, "verdict.json holds no verdict"
    version = document.get("version", 1)
    if not isinstance(version, int) or version not in VERSIONS_READ:
        allowed = f"this Staticfire reads 1 to {VERDICT_VERSION}"
        return {}, f"verdict.json has version {truncated_repr(version)}; {allowed}"
    if version < ANOMALIES_RENAMED:
        try:
            return {**document, "verdict": with_current_names(document["verdict"])}, ""
        except (KeyError, TypeError, AttributeError, ValueError):
            return {}, "verdict.json holds no verdict"
    return document, ""


def read_faults(folder: ServedFolder, path: Sequence[str]) -> list[Mapping[str, object]]:
    """Return the planned faults of a run, at most FAULTS_MAX."""
    try:
        lines = folder.read((*path, "faults.jsonl"), FAULT_BYTES_MAX).splitlines()
    except NotServed:
        return []
    return [one for one in map(json_object, lines[:FAULTS_MAX]) if one]


def json_object(line: bytes) -> Mapping[str, object]:
    """Return the object of a line of JSON; an empty one for any other line."""
    try:
        return table(orjson.loads(line))
    except ValueError:
        return {}
