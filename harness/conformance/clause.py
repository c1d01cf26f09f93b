"""Clauses: the duties of an implementation of the protocol, as data.

RocketMQ's protocol has no standard. The contract records what Apache RocketMQ 4.9.8 promises or does, each clause with
its source. An id is stable and is never reused.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

_ID = re.compile(r"RMQ-[A-Z]{2,3}-[0-9]{2}")


class Level(StrEnum):
    """The weight of a clause."""

    MUST = "must"  # clients break without it
    SHOULD = "should"  # documented or relied upon
    MAY = "may"  # an optional feature
    QUIRK = "quirk"  # behaviour of Java that is arguably a bug; never fails a target


BINDING = (Level.MUST, Level.SHOULD)  # a broken clause of these levels fails a target


class Need(StrEnum):
    """The needs of a case from the site of the target."""

    WIRE = "wire"  # any address
    ADMIN = "admin"  # topics and groups may be created and options changed
    MULTI = "multi"  # two masters or more, one with a slave
    FAULT = "fault"  # nodes can be stopped, killed and frozen
    FILES = "files"  # a node's store can be read
    POWER = "power"  # unsynced writes can be thrown away
    CLIENT = "client"  # a client library under test


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One promise of the contract."""

    id: str  # RMQ-<AREA>-<nn>
    area: str  # its words: "Remoting"
    level: Level
    needs: frozenset[Need]
    title: str
    text: str
    source: str  # a class at tag rocketmq-all-4.9.8, a page of its documentation, or a bug report
    # why Java 4.9.8 breaks it; a failure is then shown, but does not fail the target
    quirk: str = ""

    @property
    def area_id(self) -> str:
        return self.id.split("-")[1]


class ContractError(ValueError):
    """A file of the contract is invalid."""


@cache
def contract() -> Mapping[str, Clause]:
    """Return all clauses by id, in the order of the files and of the clauses in them. Raises ContractError."""
    clauses: dict[str, Clause] = {}
    folder = files("staticfire.harness.conformance.contract")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    for name in names:
        for clause in read_clauses((folder / name).read_text(encoding="utf-8"), name):
            if clause.id in clauses:
                raise ContractError(f"{name}: {clause.id} is there twice")
            clauses[clause.id] = clause
    return MappingProxyType(clauses)


def read_clauses(text: str, name: str) -> Iterator[Clause]:
    """Return the clauses of one file. Raises ContractError with `name`."""
    try:
        document = tomllib.loads(text)
        for fields in document["clause"]:
            yield _clause(fields, document["area"])
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise ContractError(f"{name}: {error}") from error


def _clause(fields: Mapping[str, Any], area: str) -> Clause:
    if not _ID.fullmatch(fields["id"]):
        raise ValueError(f"id is {fields['id']!r}; expected RMQ-<AREA>-<nn>")
    return Clause(
        id=fields["id"],
        area=area,
        level=Level(fields["level"]),
        needs=frozenset(map(Need, fields["needs"])) | {Need.WIRE},
        title=fields["title"],
        text=fields["text"],
        source=fields["source"],
        quirk=fields.get("quirk", ""),
    )
