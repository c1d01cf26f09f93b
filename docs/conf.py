"""Sphinx's configuration of the site that `make site` builds: all pages of the repository, with links checked."""

import re

project = "Staticfire"
extensions = ["myst_parser"]
root_doc = "docs/README"
# The source folder is the root of the repository, so that links between README.md and docs/ are those of GitHub.
include_patterns = [
    "*.md",
    "docs/*.md",
    "docs/how-to/*.md",
    "docs/examples/README.md",
    "docs/stories/README.md",
    "tests/README.md",
]
exclude_patterns = [".venv", "build", "reports", "runs"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
html_theme = "furo"
html_title = project
highlight_language = "text"
nitpicky = True
suppress_warnings = ["myst.header"]  # a generated page may leave out a level of headings

OTHERS = ("README", "ARCHITECTURE", "CONTRIBUTING", "SECURITY", "CHANGELOG", "tests/README")
LINK = re.compile(r"\]\(([\w./-]+\.md)\)")


def add_contents(_app, docname, source):
    """Give the index a table of contents for the side bar: the pages that it links to, in that order."""
    if docname != root_doc:
        return
    pages = list(dict.fromkeys(LINK.findall(source[0])))
    others = [f"../{name}.md" for name in OTHERS]
    source[0] += "\n".join(["\n```{toctree}", ":hidden:", "", *pages, *others, "```", ""])


def setup(app):
    app.connect("source-read", add_contents)
