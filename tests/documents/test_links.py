"""Links of the pages lead to files, and to headings that are there. The network is not asked."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.documents.pages import LANGUAGES, ROOT, anchors, fences, links, pages


def broken(page: str) -> list[str]:
    """The links of a page that lead to no file or to no heading of it."""
    return [link for link in links(page) if not urlsplit(link).scheme and not _leads(page, link)]


def _leads(page: str, link: str) -> bool:
    parts = urlsplit(link)
    path = ROOT / page
    if parts.path:
        path = (path.parent / unquote(parts.path)).resolve()
    if not path.exists() or not path.is_relative_to(ROOT):
        return False
    return not parts.fragment or path.suffix != ".md" or _has_heading(path, parts.fragment)


def _has_heading(page: Path, anchor: str) -> bool:
    return anchor in anchors(str(page.relative_to(ROOT)))


def pages_behind(page: str) -> list[str]:
    """The pages that a page links to."""
    paths = [urlsplit(link).path for link in links(page) if not urlsplit(link).scheme]
    found = [((ROOT / page).parent / unquote(path)).resolve() for path in paths if path]
    return [str(path.relative_to(ROOT)) for path in found if path.suffix == ".md" and path.exists()]


@pytest.mark.parametrize("page", pages())
def test_links_lead_somewhere(page: str) -> None:
    assert broken(page) == []


def test_a_broken_link_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["none.md", "README.md#nothing", "#nothing", "https://example.org/x", "README.md"]
    monkeypatch.setattr(f"{__name__}.links", lambda _page: wanted)
    assert broken("README.md") == wanted[:3]


def test_a_page_links_to_pages() -> None:
    assert len(links("README.md")) > 20
    assert "kinds-of-consumers" in anchors("docs/client-protocol.md")


@pytest.mark.parametrize("page", pages())
def test_every_fence_names_its_language(page: str) -> None:
    wrong = [(one.line, one.language) for one in fences(page) if one.language not in LANGUAGES]
    assert wrong == [], f"allowed: {', '.join(sorted(LANGUAGES))}"


def test_the_index_leads_to_every_page() -> None:
    """At once or over other pages."""
    reached, ahead = set[str](), ["docs/README.md"]
    while ahead:
        page = ahead.pop()
        reached.add(page)
        ahead += [to for to in pages_behind(page) if to not in reached]
    assert [page for page in pages() if page.startswith("docs/") and page not in reached] == []
