"""The site: how Sphinx reads the pages. `make docs` builds it.

The pages are plain Markdown with the repository's root as their source directory, so links between them work on a forge
as well as here. docs/index.md lists them by purpose, and the navigation is made of it: a page that it leaves out fails
the build.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docutils.nodes import document
    from sphinx.application import Sphinx

HOME = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HOME))

from streaming.version import VERSION  # noqa: E402  # found by the line above

project = "Sluice"
version = release = VERSION
project_copyright = "Sluice developers, Apache License 2.0"
extensions = ["myst_parser"]
root_doc = "README"
READMES = ("deploy/*", "docker", "examples", "matchers")
include_patterns = ["*.md", "docs/**.md", *(f"{directory}/README.md" for directory in READMES)]
exclude_patterns = [".*", "jars"]
nitpicky = True
myst_heading_anchors = 6  # as forges make them
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_title = f"Sluice {VERSION}"
html_copy_source = False
html_show_sphinx = False
html_permalinks_icon = "#"
html_theme_options = {"top_of_page_buttons": [], "navigation_with_keys": True}

INDEX = "docs/index.md"
LINK = re.compile(r"\]\(([^)\s#]+\.md)\)")
# Pages that a page of this name lists itself.
BELOW = {"docs/decisions/README": "0*"}


def setup(app: Sphinx) -> None:
    app.connect("source-read", _add_navigation)
    app.connect("doctree-read", _unlink_directories)
    app.connect("build-finished", _write_front_page)


def _add_navigation(app: Sphinx, name: str, source: list[str]) -> None:
    if name == root_doc:
        app.env.note_dependency(str(HOME / INDEX))
        source[0] += "".join(_tree(title, pages) for title, pages in _navigation())
    elif name in BELOW:
        source[0] += _tree("", [BELOW[name]])


def _navigation() -> list[tuple[str, list[str]]]:
    """The headings of the index with the pages below each."""
    _, *sections = re.split(r"^## ", (HOME / INDEX).read_text(), flags=re.MULTILINE)
    found = [("", [INDEX.removesuffix(".md")])]
    seen = {root_doc, INDEX.removesuffix(".md")}
    for section in sections:
        title, _, text = section.partition("\n")
        links = ((HOME / INDEX).parent / link for link in LINK.findall(text))
        pages = [path.resolve().relative_to(HOME).as_posix().removesuffix(".md") for path in links]
        found.append((title.strip(), [page for page in dict.fromkeys(pages) if page not in seen]))
        seen |= set(pages)
    return found


def _tree(title: str, pages: list[str]) -> str:
    lines = ["```{toctree}", ":hidden:", ":glob:", *([f":caption: {title}"] if title else []), "", *pages, "```"]
    return "\n\n" + "\n".join(lines)


def _unlink_directories(app: Sphinx, tree: document) -> None:
    """Leave the names of directories as text: the site has no page for them. Files of the repository are downloads."""
    from sphinx.addnodes import pending_xref

    here = HOME / (app.env.docname + ".md")
    for link in list(tree.findall(pending_xref)):
        target = link["reftarget"].partition("#")[0]
        if link["reftype"] == "myst" and target and (here.parent / target).is_dir():
            link.replace_self(link.children)


def _write_front_page(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.name == "html":
        refresh = f'<meta http-equiv="refresh" content="0; url={root_doc}.html">'
        page = f'<!doctype html><meta charset="utf-8"><title>{project}</title>{refresh}'
        (Path(app.outdir) / "index.html").write_text(page)
