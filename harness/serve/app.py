"""The pages of the web view and their addresses."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from staticfire.faults.defects import DEFECTS
from staticfire.harness.serve.charts import Band, Series, line_chart
from staticfire.harness.serve.comparing import compare
from staticfire.harness.serve.conformance import (
    contract_areas,
    contract_parts,
    report_at,
    reports,
)
from staticfire.harness.serve.downloads import as_page, as_text, download, is_text, sandboxed
from staticfire.harness.serve.folder import NotServed, ServedFolder
from staticfire.harness.serve.hunts import Hunt, hunt_files, read_hunt
from staticfire.harness.serve.live import ACKED, DELIVERED, REFUSED, UNCLEAR, LiveRun, LiveRuns
from staticfire.harness.serve.made_reports import ReportMaker, ReportRefused
from staticfire.harness.serve.rendering import page
from staticfire.harness.serve.run_details import REPORT, details_of
from staticfire.harness.serve.security import ICON, LOGIN, Guard, TokenCheck
from staticfire.harness.serve.summaries import (
    INVALID,
    SORTS,
    STATES,
    UNFINISHED,
    Filter,
    RunSummary,
    Summaries,
)
from staticfire.harness.serve.trends import VersionTrend, trend_of
from staticfire.harness.truncated_repr import printable

ROWS_MAX = 200  # of the table of runs, on one page
REFRESH_S = 2
LOGIN_BYTES_MAX = 4096
TIME_STEPS = 200  # of a chart over the time of a hunt
HUNT_POINTS = 600  # of a chart over its seeds
QUERY_MAX = 200  # characters of a search
MATRIX = "matrix.html"


def application(folder: ServedFolder, token: TokenCheck | None) -> ASGIApp:
    """Return the web application of a folder of runs."""
    pages = _Pages(folder, token)
    routes = [
        ("/", pages.runs),
        ("/run/{name}", pages.run),
        ("/run/{name}/live", pages.live),
        ("/run/{name}/report", pages.report),
        ("/compare", pages.compare),
        ("/trends", pages.trends),
        ("/hunts", pages.hunts),
        ("/hunt/{path:path}", pages.hunt),
        ("/bugs", pages.bugs),
        ("/bug/{name}", pages.bug),
        ("/conformance", pages.conformance),
        ("/conformance/{path:path}", pages.conformance_report),
        ("/matrix/{path:path}", pages.matrix),
        ("/contract", pages.contract),
        ("/files/{path:path}", pages.file),
        ("/text/{path:path}", pages.text),
        ("/style.css", pages.style),
        (ICON, pages.icon),
    ]
    starlette = Starlette(
        routes=[
            *(Route(path, endpoint, methods=["GET"]) for path, endpoint in routes),
            Route(LOGIN, pages.login, methods=["GET", "POST"]),
        ],
        exception_handlers={
            NotServed: _not_served,
            HTTPException: _http_error,
            ReportRefused: _refused,
            Exception: _failed,
        },
    )
    return Guard(starlette, token)


def _not_served(_request: Request, _error: Exception) -> Response:
    return page("error.html", 404, title="Not found", text="There is no such page or file here.")


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return _not_served(request, error)
    return page("error.html", error.status_code, title="Not possible", text=error.detail)


def _refused(_request: Request, error: Exception) -> Response:
    return page("error.html", 409, title="No report", text=f"There is no report: {error}.")


def _failed(request: Request, error: Exception) -> Response:
    text = f"{request.url.path}: {type(error).__name__}: {error}"
    print(f"staticfire: {printable(text[:500])}", file=sys.stderr, flush=True)
    text = "The server could not make this page. Its terminal says why; the other pages go on."
    return page("error.html", 500, title="Failed", text=text)


class _Pages:
    """The endpoints. Plain functions run in threads, so a large file delays no other client."""

    def __init__(self, folder: ServedFolder, token: TokenCheck | None) -> None:
        self._folder, self._token = folder, token
        self._summaries = Summaries(folder)
        self._live = LiveRuns(folder)
        self._reports = ReportMaker(folder)

    def runs(self, request: Request) -> Response:
        """The table of runs."""
        query = request.query_params
        wanted = Filter(
            query=query.get("q", "")[:QUERY_MAX],
            workload=query.get("workload", ""),
            state=query.get("verdict", ""),
            version=query.get("version", ""),
            sort=query.get("sort", "name"),
            is_descending=query.get("order", "down") != "up",
        )
        every = self._summaries.all()
        found = wanted.apply(every)
        first = max(0, _whole(query.get("first", "0")))
        return page(
            "runs.html",
            runs=found[first : first + ROWS_MAX],
            found=len(found),
            every=len(every),
            first=first,
            rows_max=ROWS_MAX,
            wanted=wanted,
            states=STATES,
            sorts=list(SORTS),
            workloads=sorted({run.workload for run in every} - {""}),
            versions=sorted({run.version for run in every} - {""}),
        )

    def run(self, request: Request) -> Response:
        """One run; an unfinished one has its live view."""
        summary = self._summary(request)
        if summary.state == UNFINISHED:
            return self.live(request)
        details = details_of(self._folder, summary)
        shown = [(one, is_text(one.name, one.size)) for one in details.files]
        return page("run.html", run=summary, details=details, files=shown)

    def live(self, request: Request) -> Response:
        """A run in progress."""
        summary = self._summary(request)
        try:
            live = self._live.look(summary.name)
        except NotServed:
            refresh_s = REFRESH_S if _renews(request) else None
            return page("waiting.html", run=summary, goes_on=True, refresh_s=refresh_s)
        goes_on = summary.state == UNFINISHED or live.position < live.size
        charts = [("Messages a second", _throughput(live))]
        if live.counts_unseen:
            charts.append(("Messages that no consumer has seen", _unseen(live)))
            charts.append(
                ("Lag: from acknowledgement to the first delivery, in seconds", _lag(live))
            )
        totals = {
            name: live.throughput.total(kind)
            for name, kind in (
                ("acknowledged", ACKED),
                ("refused", REFUSED),
                ("unclear", UNCLEAR),
                ("delivered", DELIVERED),
            )
        }
        return page(
            "live.html",
            run=summary,
            live=live,
            charts=charts,
            totals=totals,
            goes_on=goes_on,
            refresh_s=REFRESH_S if goes_on and _renews(request) else None,
        )

    def report(self, request: Request) -> Response:
        """The report of a run, in a sandbox: from its folder, or made now."""
        summary = self._summary(request)
        if self._folder.has((summary.name, REPORT)):
            return as_page(self._folder, (summary.name, REPORT))
        return sandboxed(self._reports.page(summary.name))

    def compare(self, request: Request) -> Response:
        """Two runs side by side."""
        names = [name for name in request.query_params.getlist("run") if name]
        runs = [self._summaries.of(name) for name in names[:2] if _is_plain(name)]
        if len(names) != 2 or len(runs) != 2 or runs[0] is None or runs[1] is None:
            text = (
                f"Two runs of this folder are compared; {len(names)} were chosen, or one is gone."
            )
            return page("error.html", 400, title="Choose two runs", text=text)
        comparison = compare(self._folder, runs[0].name, runs[1].name)
        return page("compare.html", left=runs[0], right=runs[1], comparison=comparison)

    def trends(self, request: Request) -> Response:
        """A workload over versions."""
        every = [run for run in self._summaries.all() if run.workload]
        workloads = sorted({run.workload for run in every})
        workload = request.query_params.get("workload", workloads[0] if workloads else "")
        trend = trend_of([run for run in every if run.workload == workload])
        return page(
            "trends.html",
            workloads=workloads,
            workload=workload,
            trend=trend,
            states=STATES,
            charts=_trend_charts([one for one in trend if one.is_known]),
        )

    def hunts(self, _request: Request) -> Response:
        """The files of hunts."""
        found = [(path, self._folder.entry(path)) for path in hunt_files(self._folder)]
        return page("hunts.html", hunts=found)

    def hunt(self, request: Request) -> Response:
        """One hunt."""
        path = _path(request)
        hunt = read_hunt(self._folder, path)
        charts = _hunt_charts(hunt)
        goes_on = path[-1].endswith(".part")
        return page(
            "hunt.html",
            path=path,
            hunt=hunt,
            charts=charts,
            goes_on=goes_on,
            refresh_s=REFRESH_S * 5 if goes_on and _renews(request) else None,
        )

    def bugs(self, request: Request) -> Response:
        """The planted bugs."""
        words = request.query_params.get("q", "")[:QUERY_MAX].casefold().split()
        found = [
            bug
            for bug in DEFECTS.values()
            if all(word in f"{bug.name}\n{bug.title}\n{bug.source}".casefold() for word in words)
        ]
        return page("bugs.html", bugs=found, every=len(DEFECTS), query=" ".join(words))

    def bug(self, request: Request) -> Response:
        """One planted bug."""
        bug = DEFECTS.get(request.path_params["name"])
        if bug is None:
            raise NotServed("no such bug")
        runs = [run for run in self._summaries.all() if run.defect == bug.name]
        diff = bug.diff.decode(errors="replace").splitlines()
        return page("bug.html", bug=bug, diff=diff, runs=runs[-ROWS_MAX:])

    def conformance(self, _request: Request) -> Response:
        """The reports of conformance."""
        return page("reports.html", reports=reports(self._folder))

    def conformance_report(self, request: Request) -> Response:
        """One report."""
        report = report_at(self._folder, _path(request, can_be_empty=True))
        has_matrix = self._folder.has((*report.path, MATRIX))
        query = request.query_params
        outcome, area = query.get("outcome", ""), query.get("area", "")
        words = query.get("q", "")[:QUERY_MAX].casefold().split()
        cases = [
            case
            for case in report.cases
            if outcome in ("", case["outcome"])
            and area in ("", case["area"])
            and all(word in f"{case['id']}\n{case['title']}".casefold() for word in words)
        ]
        return page(
            "report.html",
            report=report,
            cases=cases,
            outcome=outcome,
            area=area,
            query=" ".join(words),
            has_matrix=has_matrix,
        )

    def contract(self, request: Request) -> Response:
        """The contract, clause by clause."""
        area = request.query_params.get("area", "")
        words = request.query_params.get("q", "")[:QUERY_MAX].casefold().split()
        return page(
            "contract.html",
            parts=contract_parts(area, words),
            areas=contract_areas(),
            area=area,
            query=" ".join(words),
        )

    def matrix(self, request: Request) -> Response:
        """The page that `conform` wrote, in a sandbox."""
        path = (*_path(request, can_be_empty=True), MATRIX)
        return as_page(self._folder, path)

    def file(self, request: Request) -> Response:
        """A file as a download."""
        return download(self._folder, _path(request))

    def text(self, request: Request) -> Response:
        """A file as plain text."""
        return as_text(self._folder, _path(request))

    def style(self, _request: Request) -> Response:
        """The style sheet."""

        css = files("staticfire.harness.serve").joinpath("static/style.css").read_bytes()
        return Response(css, media_type="text/css", headers={"cache-control": "max-age=3600"})

    def icon(self, _request: Request) -> Response:
        """Answer without content. Browsers request an icon for every page and log an error if there is none."""
        return Response(status_code=204, headers={"cache-control": "max-age=86400"})

    async def login(self, request: Request) -> Response:
        """The form for the token, which sets the cookie."""
        if self._token is None:
            return RedirectResponse("/", 303)
        if request.method != "POST":
            return page("login.html", is_wrong=False)
        given = await _form_field(request, "token")
        if not self._token.is_token(given):
            return page("login.html", 403, is_wrong=True)
        response = RedirectResponse("/", 303)
        response.set_cookie(
            self._token.cookie_name, self._token.cookie, httponly=True, samesite="strict"
        )
        return response

    def _summary(self, request: Request) -> RunSummary:
        """Raises NotServed."""
        name = request.path_params["name"]
        summary = self._summaries.of(name) if _is_plain(name) else None
        if summary is None:
            raise NotServed("no such run")
        return summary


def _renews(request: Request) -> bool:
    """Return whether the page reloads itself; the link "Stop" turns that off."""
    return request.query_params.get("renew") != "no"


def _is_plain(name: str) -> bool:
    return "\0" not in name and "/" not in name


def _path(request: Request, *, can_be_empty: bool = False) -> Sequence[str]:
    """Return the names of a path below the folder, which the folder itself checks. Raises NotServed."""
    text = request.path_params["path"]
    if not text and can_be_empty:
        return ()
    return tuple(text.split("/"))


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0


async def _form_field(request: Request, name: str) -> str:
    """Return a field of a form. Raises HTTPException for a form that is too large."""
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > LOGIN_BYTES_MAX:
            raise HTTPException(413, "The form is too large.")
    try:
        found = parse_qs(data.decode(), max_num_fields=5).get(name, [""])
    except ValueError as error:
        raise HTTPException(400, "The form cannot be read.") from error
    return found[0]


def _throughput(live: LiveRun) -> object:
    kinds = (("acknowledged", ACKED), ("delivered", DELIVERED), ("refused or unclear", None))
    bad = [
        one + other
        for one, other in zip(
            live.throughput.rate(REFUSED), live.throughput.rate(UNCLEAR), strict=True
        )
    ]
    series = [
        Series(name=name, values=bad if kind is None else live.throughput.rate(kind))
        for name, kind in kinds
    ]
    return _over_time(live, series, "Messages a second; bands are faults")


def _unseen(live: LiveRun) -> object:
    series = Series(name="acknowledged, and no consumer has seen it", values=live.throughput.unseen)
    return _over_time(live, [series], "Messages that no consumer has seen; bands are faults")


def _lag(live: LiveRun) -> object:
    series = [
        Series(name=name, values=live.throughput.lag_s(percent))
        for name, percent in (("median", 50), ("99th percentile", 99), ("longest", 100))
    ]
    return _over_time(live, series, "Lag in seconds, by the time of the delivery; bands are faults")


def _trend_charts(trend: Sequence[VersionTrend]) -> list[tuple[str, Any]]:
    """Return (title, chart) over the versions, the oldest first; none for a single version."""
    if len(trend) < 2:
        return []
    bad = Series(
        name="invalid",
        values=[one.share(INVALID) for one in trend],
        marks=[one.version for one in trend],
    )
    acked = Series(
        name="median of a run",
        values=[one.acked for one in trend],
        marks=[one.version for one in trend],
    )
    found = []
    for title, series in (("Percent of runs that are invalid", bad), ("Acknowledged sends", acked)):
        label = f"{title}, by version"
        found.append((title, line_chart([series], begin=1, step=1, unit="version", label=label)))
    return found


def _hunt_charts(hunt: Hunt) -> list[tuple[str, Any]]:
    """Return (title, chart): behaviours over the seeds, and over the CPU time of the runs."""
    name = "behaviours that some seed has reached"
    by_row = Series(name=name, values=_thinned(hunt.reached))
    step = max(1.0, len(hunt.reached) / max(1, len(by_row.values)))
    title = "Behaviours reached over the seeds"
    charts = [(title, line_chart([by_row], begin=1, step=step, unit="row", label=title))]
    if hunt.seconds:
        over_time = hunt.over_time(TIME_STEPS)
        step = hunt.seconds / TIME_STEPS
        title = "Behaviours reached over time"
        by_time = Series(name=name, values=over_time)
        drawn = line_chart([by_time], begin=0, step=step, unit="second", label=title)
        charts.append((title, drawn))
    return charts


def _over_time(live: LiveRun, series: Sequence[Series], label: str) -> Any:
    end_s = live.last_ns / 1e9
    bands = [
        Band(
            name=f"{fault['kind']} {fault['targets']}",
            begin=fault["begin_ns"] / 1e9,
            end=end_s if fault["end_ns"] is None else fault["end_ns"] / 1e9,
        )
        for fault in live.faults.values()
    ]
    return line_chart(
        series, begin=0, step=live.throughput.step_s, unit="second", label=label, bands=bands
    )


def _thinned(values: Sequence[int]) -> list[float]:
    """Return at most HUNT_POINTS of the values, the last one among them."""
    if len(values) <= HUNT_POINTS:
        return [float(value) for value in values]
    step = len(values) / HUNT_POINTS
    return [
        float(values[min(len(values) - 1, int((number + 1) * step) - 1)])
        for number in range(HUNT_POINTS)
    ]
