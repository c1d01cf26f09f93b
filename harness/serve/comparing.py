"""Compares two runs: settings, faults, verdicts, and the first op at which their histories differ."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import BinaryIO

from staticfire.harness.serve.documents import json_object, read_campaign, read_faults, read_verdict
from staticfire.harness.serve.folder import NotServed, ServedFolder
from staticfire.harness.serve.loose import rows, table, text
from staticfire.harness.serve.summaries import violations_of

LINE_BYTES_MAX = 16 << 20
COMPARE_BYTES_MAX = 1 << 30
COMPARE_TIME_MAX_S = 20.0
DIGEST_SHOWN = 16
AROUND = 4  # ops that are shown before and after the difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A value that differs in two runs."""

    name: str
    left: str
    right: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The first difference of two histories.

    Attributes:
        same: number of equal ops.
        before: the last equal ops.
        left, right: the next ops of each history; empty for one that ends there.
        note: why no difference was found, or no comparison was possible; empty where `left` and `right` differ.
    """

    same: int
    before: Sequence[Mapping[str, object]] = ()
    left: Sequence[Mapping[str, object]] = ()
    right: Sequence[Mapping[str, object]] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All differences of two runs."""

    settings: Sequence[Difference]
    faults: Sequence[Difference]
    verdict: Sequence[Difference]
    divergence: Divergence


def compare(folder: ServedFolder, left: str, right: str) -> Comparison:
    """Compare two runs of the folder."""
    campaigns = [read_campaign(folder, (name,)) for name in (left, right)]
    faults = [dict(map(_fault, read_faults(folder, (name,)))) for name in (left, right)]
    verdicts = [_verdict(read_verdict(folder, (name,))[0]) for name in (left, right)]
    return Comparison(
        settings=_differences(*(_flat(one) for one in campaigns)),
        faults=_differences(*faults),
        verdict=_differences(*verdicts),
        divergence=_divergence(folder, left, right),
    )


def _differences(left: Mapping[str, str], right: Mapping[str, str]) -> list[Difference]:
    names = dict.fromkeys((*left, *right))
    found = (
        Difference(name=name, left=left.get(name, "–"), right=right.get(name, "–"))
        for name in names
    )
    return [one for one in found if one.left != one.right]


def _flat(values: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}


def _fault(fault: Mapping[str, object]) -> tuple[str, str]:
    targets = ", ".join(map(str, rows(fault.get("targets"))))
    name = f"{fault.get('id')} {text(fault.get('kind'))} {targets}".strip()
    if fault.get("struck_ns") is None:
        return name, "never struck"
    effect = "bit" if fault.get("bitten") is True else "no effect"
    return (
        name,
        f"{effect}, {_seconds(fault.get('struck_ns'))} to {_seconds(fault.get('healed_ns'))}",
    )


def _seconds(value: object) -> str:
    return f"{value / 1e9:.3f} s" if type(value) is int else "the end"


def _verdict(document: Mapping[str, object]) -> dict[str, str]:
    verdict = table(document.get("verdict"))
    if not verdict:
        return {"verdict": "none"}
    anomalies = {name: str(count) for name, count in violations_of(verdict).items()}
    counted = {name: str(count) for name, count in table(verdict.get("counts")).items()}
    digest = text(document.get("digest"))[:DIGEST_SHOWN]
    return {"valid": str(verdict.get("valid")), **anomalies, **counted, "digest": digest}


def _divergence(folder: ServedFolder, left: str, right: str) -> Divergence:
    try:
        with (
            folder.open((left, "history.jsonl")) as one,
            folder.open((right, "history.jsonl")) as other,
        ):
            return first_difference(_lines(one), _lines(other))
    except NotServed:
        return Divergence(same=0, note="a run without history.jsonl cannot be compared")


def _lines(file: BinaryIO) -> Iterator[bytes]:
    return iter(partial(file.readline, LINE_BYTES_MAX), b"")


def first_difference(left: Iterator[bytes], right: Iterator[bytes]) -> Divergence:
    """Compare lines of two histories, up to COMPARE_BYTES_MAX and for COMPARE_TIME_MAX_S."""
    before: deque[bytes] = deque(maxlen=AROUND)
    end_s = time.monotonic() + COMPARE_TIME_MAX_S
    same = size = 0
    for one, other in zip_longest(left, right, fillvalue=b""):
        if one != other:
            return Divergence(
                same=same,
                before=_ops(before),
                left=_ops(_taken(one, left)),
                right=_ops(_taken(other, right)),
            )
        same += 1
        size += len(one)
        before.append(one)
        if size > COMPARE_BYTES_MAX or (not same % 10_000 and time.monotonic() > end_s):
            note = f"the first {same} ops are the same; the rest was not compared"
            return Divergence(same=same, before=_ops(before), note=note)
    return Divergence(same=same, note=f"the histories are the same: {same} ops")


def _taken(first: bytes, more: Iterator[bytes]) -> list[bytes]:
    following = [line for _, line in zip(range(AROUND - 1), more, strict=False)]
    return [line for line in (first, *following) if line]


def _ops(lines: Iterable[bytes]) -> list[Mapping[str, object]]:
    return [json_object(line) for line in lines]
