"""Renders the panels of a run as one HTML page that needs no network.

No text of the run can act as markup or script.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator
from functools import cache
from importlib import resources

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from staticfire.checkers.guarantees.facts import replication_text
from staticfire.checkers.guarantees.verdict import WITNESSES_MAX, Finding, Verdict
from staticfire.harness.html_report.lanes import MARKS
from staticfire.harness.html_report.panels import Panels, figures_of
from staticfire.harness.html_report.recorded_run import RecordedRun
from staticfire.harness.html_report.svg import LEFT, RIGHT, WIDTH, at_s
from staticfire.harness.report.causes import loss_sentence
from staticfire.harness.report.quantities import counted
from staticfire.harness.report.verdict_lines import WORDS
from staticfire.harness.truncated_repr import printable

SIGNS = {True: "✔", False: "✖", "unknown": "?"}
CAMPAIGN_CHARACTERS_MAX = 60_000
EXTRA_CHARACTERS_MAX = 20_000
SHOWN_OTHERWISE = frozenset({"witness", "events", "commands", "consequences", "others"})
CAUSES_MAX = 8  # causes shown in full at the top of the page
TEXT_MAX = 4000  # characters of one value from a file
SECTIONS = (
    ("ledger", "Promises"),
    ("timeline", "Timeline"),
    ("charts", "Charts"),
    ("witnesses", "Witnesses"),
    ("blast", "Blast radius"),
    ("faults", "Faults"),
    ("coverage", "Coverage"),
    ("confidence", "Confidence"),
    ("go-on", "Go on"),
)


def render(panels: Panels) -> str:
    """Return the page."""
    run = panels.run
    verdict = run.verdict
    style, script = _file("report.css"), _file("report.js")
    coverage = verdict.coverage
    return _template().render(
        panels=panels,
        verdict=verdict,
        name=run.path.resolve().name,
        word=WORDS[verdict.valid],
        sign=SIGNS[verdict.valid],
        sentence=loss_sentence(verdict),
        sections=SECTIONS,
        facts=list(_facts(run)),
        profile=_profile(run),
        diagnoses=_texts(run.document.get("diagnoses")),
        marks=[MARKS[kind] for kind in MARKS],
        extras=list(_extras(run)),
        anomalies=list(dict.fromkeys(finding.anomaly for finding in panels.findings)),
        kept_max=WITNESSES_MAX,
        causes_max=CAUSES_MAX,
        reached=[(name, count) for name, count in coverage.items() if count],
        missed=[name for name, count in coverage.items() if not count],
        confidence=list(_confidence(run)),
        notes=list(_notes(run)),
        versions=list(_versions(run)),
        campaign_text=_cut(run.campaign_text),
        shrunk=run.shrunk,
        shrunk_campaign="" if run.shrunk is None else _cut(run.shrunk.campaign_text),
        values=_json(panels),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        first_of=_first_of,
        position=_position_text,
        counted=counted,
        number=_number,
        seconds=at_s,
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("staticfire.harness.html_report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=_finalize,
    )
    return environment.get_template("report.html")


def _finalize(value: object) -> object:
    """Escape control characters and marks that change the text direction, in values from a run."""
    if isinstance(value, Markup | int | float):
        return value
    text = str(value)
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


@cache
def _file(name: str) -> str:
    folder = resources.files("staticfire.harness.html_report") / "templates"
    return (folder / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the hash by which the content security policy of the page admits its own style or script."""
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _json(panels: Panels) -> str:
    """Return JSON that cannot end its script element."""
    end_s = max(panels.run.run_s, panels.run.history.end_ns() / 1e9)
    bands = [(life.band(end_s)) for life in panels.faults]
    values = {
        **panels.values,
        "rows": [{**row, "name": printable(row["name"])} for row in panels.values["rows"]],
        "end_s": end_s or 1,
        "width": WIDTH,
        "left": LEFT,
        "right": RIGHT,
        "faults": [
            {"name": printable(band.text), "start": band.start_s, "end": band.end_s}
            for band in bands
            if band is not None
        ],
    }
    text = orjson.dumps(values).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _first_of(verdict: Verdict) -> list[Finding]:
    """Return the first violation of each anomaly of one checker."""
    first: dict[str, Finding] = {}
    for finding in verdict.findings:
        if finding.judgement == "violation":
            first.setdefault(finding.anomaly, finding)
    return list(first.values())


def _position_text(finding: Finding) -> str:
    parts = [
        finding.topic,
        finding.broker,
        None if finding.queue is None else f"queue {finding.queue}",
        None if finding.queue_offset is None else f"offset {finding.queue_offset}",
        None if finding.physical_offset is None else f"physical offset {finding.physical_offset}",
        None if finding.group is None else f"group {finding.group}",
    ]
    return ", ".join(part for part in parts if part)


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _facts(run: RecordedRun) -> Iterator[tuple[str, str]]:
    counts = run.verdict.counts
    campaign = run.campaign
    if campaign is not None:
        yield "Seed", str(campaign.seed)
        yield "Workload", campaign.workload
        yield (
            "Where",
            campaign.environment + ("" if campaign.target == "own" else f", {campaign.target}"),
        )
        if campaign.defect:
            yield "Planted bug", campaign.defect
    unit = " virtual s" if campaign is not None and campaign.environment == "simulation" else " s"
    yield "Length", f"{run.run_s:,.1f}{unit}"
    yield "Acknowledged", f"{counts.get('acked', 0):,}"
    yield "Unclear", f"{counts.get('unknown', 0) + counts.get('weak', 0):,}"
    yield "Refused", f"{counts.get('failed', 0):,}"
    yield "Deliveries", f"{counts.get('deliveries', 0):,}"
    figures = dict(figures_of(run))
    if "send p99" in figures:
        yield "Send p50 and p99", f"{figures.get('send p50', '?')}, {figures['send p99']}"


def _profile(run: RecordedRun) -> str:
    facts = run.facts
    return f"{facts.flush} flush, {replication_text(facts.replication)}, {run.verdict.mode} mode"


def _confidence(run: RecordedRun) -> Iterator[tuple[str, str]]:
    counts = run.verdict.counts
    yield "Loss", f"{loss_sentence(run.verdict)}; every acknowledged message was looked for"
    yield "Sends", f"{counts.get('sends', 0):,}"
    yield "Acknowledged with SEND_OK", f"{counts.get('acked', 0):,}"
    yield "Weak status: may survive or vanish", f"{counts.get('weak', 0):,}"
    yield "No certain answer: may survive or vanish", f"{counts.get('unknown', 0):,}"
    yield "Refused: never happened", f"{counts.get('failed', 0):,}"
    yield "Deliveries", f"{counts.get('deliveries', 0):,}"
    for verdict in run.verdict.verdicts:
        if verdict.checker == "duplication":
            allowed = verdict.counts.get("duplicate_allowed", 0)
            yield "Duplicates that at-least-once allows", f"{allowed:,}"
    bitten, idle = run.verdict.faults_bitten, run.verdict.faults_not_bitten
    yield "Faults that bit, and that did not", f"{len(bitten)}, {len(idle)}"
    yield "Below the minimum of evidence", "; ".join(run.verdict.below_floors) or "nothing"
    yield "History", "torn: what came after is not in it" if run.history.torn else "whole"
    yield (
        "Checksums",
        "every file is what the run wrote" if run.is_checked else "none were recorded",
    )


def _notes(run: RecordedRun) -> Iterator[str]:
    if run.observations.unread:
        yield f"observations were not read: {run.observations.unread}"
    if run.observations.torn:
        yield "the observations are torn: what came after is not in them"


def _versions(run: RecordedRun) -> Iterator[tuple[str, str]]:
    versions = run.document.get("versions")
    if isinstance(versions, dict):
        yield from ((str(name), str(value)[:200]) for name, value in list(versions.items())[:20])
    else:
        yield "staticfire", "not recorded"
    if digest := run.document.get("digest"):
        yield "digest", str(digest)[:128]


def _texts(value: object) -> list[str]:
    return [str(text)[:TEXT_MAX] for text in value[:20]] if isinstance(value, list) else []


def _extras(run: RecordedRun) -> Iterator[tuple[str, str]]:
    """Return the parts of explanation.json that the page does not show elsewhere, such as the point of no return."""
    for name, value in run.explanation.items():
        if name in SHOWN_OTHERWISE or not isinstance(value, dict | list) or not value:
            continue
        text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
        if len(text) > EXTRA_CHARACTERS_MAX:
            text = text[:EXTRA_CHARACTERS_MAX] + "\n... the rest is in explanation.json"
        yield str(name).replace("_", " ").capitalize()[:80], text


def _cut(text: str) -> str:
    """Return the part of a campaign file that the page shows."""
    if len(text) <= CAMPAIGN_CHARACTERS_MAX:
        return text
    return text[:CAMPAIGN_CHARACTERS_MAX] + "\n# ... the rest is in the file"
