"""Adds the names of nodes to findings: `process 100008 on consumer-4`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from staticfire.checkers.guarantees.verdict import Verdict

PROCESS = re.compile(r"\bprocess (\d+)\b(?! on )")


def with_nodes(verdict: Verdict, nodes: Mapping[int, str]) -> Verdict:
    """Return the verdict with the node of each process that a detail names; `nodes` maps processes to nodes."""
    findings = tuple(
        replace(finding, detail=_named(finding.detail, nodes))
        if PROCESS.search(finding.detail)
        else finding
        for finding in verdict.findings
    )
    return verdict if findings == verdict.findings else replace(verdict, findings=findings)


def _named(detail: str, nodes: Mapping[int, str]) -> str:
    def name(found: re.Match[str]) -> str:
        node = nodes.get(int(found[1]))
        return found[0] if node is None else f"{found[0]} on {node}"

    return PROCESS.sub(name, detail)
