"""The histories of tests/data/jepsen-cases.toml, as EDN and judged."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from staticfire.checkers.formats.jepsen.edn import parse_all
from staticfire.checkers.formats.jepsen.judging import judge_jepsen
from staticfire.checkers.formats.jepsen.reading import JepsenReader
from staticfire.checkers.guarantees.judgement import Judgement
from staticfire.checkers.model.history import Op
from staticfire.checkers.verdicts.compose import RunVerdict

FILE = Path(__file__).parent.parent / "data" / "jepsen-cases.toml"
CASES: Mapping[str, dict[str, Any]] = {
    case["name"]: case for case in tomllib.loads(FILE.read_text(encoding="utf-8"))["case"]
}


def edn_of(ops: str) -> str:
    """Lines of EDN for lines of `process type f value`; `true` at the end seeks to the beginning."""
    return "".join(_line(time, line) for time, line in enumerate(ops.strip().splitlines()))


def _line(time: int, line: str) -> str:
    process, type_, f, value = line.split(" ", 3)
    value, seeks, _ = value.partition(" true")
    seek = ", :seek-to-beginning? true" if seeks else ""
    op = f":type :{type_}, :f :{f}, :value {value}, :process {process}, :time {time}{seek}"
    return "{" + op + "}\n"


def read_edn(text: str) -> list[Op]:
    return list(_ops(text))


def _ops(text: str) -> Iterator[Op]:
    reader = JepsenReader(transactions=True)
    for value in parse_all(text):
        yield from reader.read(value)


def judge_lines(ops: str, *, groups: Collection[str] = (), **facts: Any) -> RunVerdict:
    known = {"flush": "sync", "replication": "none", **facts}
    return judge_jepsen(read_edn(edn_of(ops)), groups=groups, **known)


def violations(verdict: RunVerdict) -> dict[str, int]:
    """How many violations of each anomaly the verdict counts."""
    found = verdict.findings()
    named = {finding.anomaly for finding in found if finding.judgement is Judgement.VIOLATION}
    return {
        name: sum(one.counts.get(name, 0) for one in verdict.verdicts) for name in sorted(named)
    }
