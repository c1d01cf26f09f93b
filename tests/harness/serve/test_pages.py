"""Pages of a real server: their content, and an error page for a damaged or hostile run."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from staticfire.faults.defects import DEFECTS
from staticfire.harness.conformance.clause import contract
from tests.harness.serve.conftest import NASTY_NAME, SECRET, Server

pytestmark = [pytest.mark.real, pytest.mark.slow]


class Page(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def links(self) -> list[str]:
        return [found["href"] or "" for tag, found in self.tags if tag == "a" and "href" in found]


def page(server: Server, path: str) -> Page:
    answer = server.get(path)
    assert answer.status == 200, (path, answer.text)
    return Page(answer.text)


def names(server: Server, **query: str) -> list[str]:
    """The runs of the table."""
    found = page(server, f"/?{urlencode(query)}")
    return [str(one["value"]) for tag, one in found.tags if one.get("type") == "checkbox"]


def test_the_table_has_every_run(server: Server) -> None:
    folders = {one.name for one in server.folder.iterdir() if (one / "campaign.toml").exists()}
    assert set(names(server)) == {
        name.replace("\x1b", r"\x1b") for name in folders if "link" not in name
    }


def test_the_table_is_filtered_searched_and_sorted(server: Server) -> None:
    assert names(server, verdict="invalid", q="lost queue") == ["lost"]
    assert names(server, verdict="unfinished", q="going") == ["going-on"]
    assert names(server, version="0.0.9 abc") == ["lost"]
    assert names(server, q="none of them has this") == []
    damaged = names(server, q="damaged", sort="name", order="up")
    assert damaged == sorted(damaged)
    assert names(server, q="damaged", sort="name", order="down") == damaged[::-1]
    assert names(server, sort="no such column", q="lost queue") == ["lost"]
    assert names(server, first="99999") == []


def test_a_run_says_its_verdict_and_its_findings(server: Server) -> None:
    found = page(server, "/run/lost")
    assert "✗ invalid" in found.text
    assert "lost 3" in found.text
    assert "p1-7" in found.text
    assert "10 more are in verdict.json" in found.text
    assert "kill" in found.text
    for name in ("/run/lost/report", "/files/lost/history.jsonl", "/text/lost/campaign.toml"):
        assert name in found.links


def test_a_run_of_another_version_says_so(server: Server) -> None:
    found = page(server, "/run/damaged-of-another-version")
    assert "verdict.json has version 99; this Staticfire reads 1 to " in found.text
    assert "! damaged" in found.text
    assert "✓ valid" not in found.text
    refused = server.get("/run/damaged-of-another-version/report")
    assert refused.status == 409
    assert "has version 99" in refused.text
    assert "/tmp" not in refused.text


def test_a_report_is_in_a_sandbox(server: Server) -> None:
    answer = server.get("/run/lost/report")
    assert (answer.status, answer.body[:19]) == (200, b"<h1>the report</h1>")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts ")
    assert "allow-same-origin" not in policy
    assert server.get("/run/going-on/report").status == 404


def test_a_file_is_a_download_and_text_is_plain(server: Server) -> None:
    answer = server.get("/files/lost/history.jsonl")
    assert answer.body == (server.folder / "lost" / "history.jsonl").read_bytes()
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert answer.headers["content-type"] == "application/octet-stream"
    shown = server.get("/text/lost/campaign.toml")
    assert shown.headers["content-type"] == "text/plain; charset=utf-8"
    assert server.get("/text/lost/report.html").status == 404
    head = server.get("/files/lost/history.jsonl", "HEAD")
    assert (head.status, head.body) == (200, b"")


def test_a_run_that_goes_on_is_read_further(server: Server, one_run: Path) -> None:
    lines = (one_run / "history.jsonl").read_bytes()
    path = server.folder / "going-on" / "history.jsonl"
    assert server.get("/run/going-on").headers["refresh"] == "2"
    assert "refresh" not in server.get("/run/going-on?renew=no").headers  # a reader stopped it
    before = page(server, "/run/going-on")
    with path.open("ab") as file:
        file.write(lines[60_000:90_000])
    after = page(server, "/run/going-on")

    def ops(text: str) -> int:
        found = re.search(r"Ops (\d+)", text)
        assert found is not None
        return int(found[1])

    assert ops(before.text) == lines[:60_000].count(b"\n")
    assert ops(after.text) == lines[:90_000].count(b"\n")
    assert "?renew=no" in after.links
    assert "svg" in [tag for tag, _ in after.tags]
    finished = page(server, "/run/lost/live")
    assert "refresh" not in server.get("/run/lost/live").headers
    assert ops(finished.text) == lines.count(b"\n")


def test_two_runs_are_compared(server: Server) -> None:
    one, other = "20260101-000000-queue-1", "20260101-000001-queue-1"
    found = page(server, f"/compare?run={one}&run={other}")
    assert "The first 40 ops are the same" in found.text
    assert "queues" in found.text
    assert "Both had the same faults" in found.text
    same = page(server, f"/compare?run={one}&run=lost")
    assert "The histories are the same" in same.text
    assert "lost – 3" in same.text
    for query in ("", f"run={one}", f"run={one}&run=none", "run=..&run=..", "run=a&run=b&run=c"):
        assert server.get(f"/compare?{query}").status == 400


def test_trends_show_versions(server: Server) -> None:
    found = page(server, "/trends?workload=queue")
    assert "0.0.9 abc" in found.text
    labels = [one["aria-label"] for tag, one in found.tags if tag == "svg" and "aria-label" in one]
    assert "1 invalid" in labels
    assert page(server, "/trends?workload=none").text


def test_a_hunt_shows_causes_and_behaviours(server: Server) -> None:
    assert "/hunt/hunt.jsonl" in page(server, "/hunts").links
    found = page(server, "/hunt/hunt.jsonl")
    assert "30 runs" in found.text
    assert "✗ invalid 6" in found.text.replace("  ", " ")
    assert "loss (lost) 3 queue 0, 10, 20" in found.text
    assert "32 behaviours were reached. The latest new one came with row 30 of 30" in found.text
    assert "the runs after it took 0.0 of 58.5 s" in found.text
    labels = [one["aria-label"] for tag, one in found.tags if tag == "svg" and "aria-label" in one]
    assert labels == ["Behaviours reached over the seeds", "Behaviours reached over time"]
    assert server.get("/hunt/lost/history.jsonl").status == 404


def test_planted_bugs_have_a_page_each(server: Server) -> None:
    assert len(page(server, "/bugs").links) >= len(DEFECTS)
    bug = DEFECTS["ack-before-fsync"]
    assert bug.title in page(server, "/bug/ack-before-fsync").text
    assert f"/bug/{bug.name}" in page(server, "/bugs?q=ack-before").links
    assert server.get("/bug/none").status == 404


def test_conformance_lists_failures_first(server: Server) -> None:
    assert "/conformance/report" in page(server, "/conformance").links
    found = page(server, "/conformance/report")
    assert "does not conform" in found.text
    outcomes = [
        one["class"] for tag, one in found.tags if str(one.get("class")).startswith("outcome")
    ]
    assert outcomes[0] == "outcome-failed"
    assert outcomes[-1] == "outcome-passed"
    filtered = page(server, "/conformance/report?outcome=quirk")
    assert str(filtered.tags).count("outcome-") == 1
    assert "1 of 5 cases" in filtered.text
    area = page(server, "/conformance/report?area=none+of+them")
    assert "0 of 5 cases" in area.text
    assert "sandbox" in server.get("/matrix/report").headers["content-security-policy"]


def test_the_contract_is_read_by_area_and_words(server: Server) -> None:
    every = contract()
    assert len(re.findall("RMQ-[A-Z]+-[0-9]+ ", page(server, "/contract").text)) >= len(every)
    area = every["RMQ-TXN-09"].area
    found = page(server, f"/contract?{urlencode({'area': area, 'q': 'killed'})}")
    assert "RMQ-TXN-09" in found.text
    assert "RMQ-SND-01" not in found.text
    assert "No clause fits" in page(server, "/contract?q=nothing+has+this").text


def every_page(server: Server) -> list[str]:
    """Addresses of all pages, found by following links from the first one."""
    found = {"/", "/trends", "/hunts", "/bugs", "/conformance", "/contract"}
    open_pages = sorted(found)
    while open_pages:
        answer = server.get(open_pages.pop())
        if not answer.headers["content-type"].startswith("text/html"):
            continue
        links = [one for one in Page(answer.text).links if one.startswith("/")]
        new = {one for one in links if not one.startswith(("/bug/", "/?", "/files/"))} - found
        found |= new
        open_pages += new
    return sorted(found)


def test_no_page_fails_and_none_holds_what_a_run_wrote_as_markup(server: Server) -> None:
    """Scripts, images and handlers come from no template of ours, so one of them would be a run's."""
    pages = every_page(server)
    assert len(pages) > 40
    names_of_runs = [quote(NASTY_NAME), "damaged-torn", "damaged-deep", "damaged-odd"]
    for name in names_of_runs:
        assert f"/run/{name}" in pages, name
    for path in pages:
        answer = server.get(path)
        # A report that is made now says in one sentence why a damaged run has none.
        assert answer.status in ((200, 409) if path.endswith("/report") else (200,)), path
        assert SECRET not in answer.text
        if "sandbox" in answer.headers["content-security-policy"]:
            continue
        if answer.headers["content-type"].startswith("text/html"):
            shown = Page(answer.text)
            assert not {"script", "img", "iframe", "object", "embed", "base"} & {
                tag for tag, _ in shown.tags
            }, path
            assert not [name for _, found in shown.tags for name in found if name.startswith("on")]
            assert not set(answer.text) & {"\x1b", "\u202e"}, path
