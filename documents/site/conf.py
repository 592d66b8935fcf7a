"""The documentation site, built by Sphinx from the Markdown where it lies: `make docs`.

Sources stay plain Markdown. What Sphinx needs beyond it is added here while the pages are read:

- The navigation has the links of the bulleted lists of the start page, section by section. Below an index
  page (`README.md`) are the pages of its folder that a list entry or a table row links to first. A page that
  is nowhere in it fails the build.
- A `mermaid` block becomes a diagram, drawn in the browser by the site's own copy of mermaid.
- `<a id="…"></a>` in a page is a place that links may lead to.
"""

import re
from pathlib import PurePosixPath
from typing import Any, ClassVar, Final

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

_START_PAGE: Final = "docs/README"
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_LISTED_PAGE = re.compile(r"^[-|] .*?\[([^]]*)\]\(([^)#:]+)\.md[^)]*\)", re.MULTILINE)
_ANCHOR = re.compile(r'<a id="([^"]+)">')

project = "burstwatch"
extensions = ["myst_parser"]
root_doc = _START_PAGE
include_patterns = ["*.md", "ddprobe/*.md", "docs/**.md", "integrations/**.md", "runbooks/*.md"]
exclude_patterns = [".*", "build", "**/node_modules"]
nitpicky = True
suppress_warnings = ["misc.highlighting_failure"]  # a shortened output is not always valid JSON or YAML

myst_heading_anchors = 6
myst_fence_as_directive = ["mermaid"]
myst_disable_syntax = ["myst_block_break", "myst_line_comment", "myst_role", "myst_target"]

html_theme = "furo"
html_title = "burstwatch"
html_favicon = "static/icon.svg"
html_static_path = ["static", "node_modules/@mermaid-js/tiny/dist"]
html_extra_path = ["extra"]
html_css_files = ["site.css"]
html_js_files = [
    ("site.js", {"priority": 300}),  # before the search reads its options
    ("menus.js", {"loading_method": "defer"}),
]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_use_index = False
html_theme_options = {"navigation_with_keys": False}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"


class Mermaid(Directive):
    """A diagram: the text of the block, for mermaid to draw."""

    has_content: ClassVar = True

    def run(self) -> list[nodes.Node]:
        """The text as it is, which is what a browser without scripts shows."""
        return [nodes.literal_block("", "\n".join(self.content), classes=["mermaid"], language="text")]


def navigation(page: str, text: str) -> str:
    """The hidden tables of contents that a page gets, from its own links; none if it is not an index.

    Args:
        page: its path from the root, without the suffix.
        text: its Markdown.
    """
    if page == _START_PAGE:
        _, *parts = _SECTION.split(text)
        sections = dict(zip(parts[::2], parts[1::2], strict=True))
        listed = {
            title: [f"{name} <{page}>" for name, page in _LISTED_PAGE.findall(part)]
            for title, part in sections.items()
        }
        return "".join(_toctree(pages, caption=title) for title, pages in listed.items())
    if PurePosixPath(page).name == "README" and "/" in page:
        return _toctree([page for _, page in _LISTED_PAGE.findall(text) if "/" not in page])
    return ""


def _toctree(pages: list[str], caption: str = "") -> str:
    options = ["```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["\n", *options, "", *dict.fromkeys(pages), "```", ""]) if pages else ""


def _add_navigation(_app: Sphinx, page: str, source: list[str]) -> None:
    source[0] += navigation(page, source[0])


def _add_anchors(app: Sphinx, doctree: nodes.document) -> None:
    slugs = app.env.metadata[app.env.docname].setdefault("myst_slugs", {})
    for raw in doctree.findall(nodes.raw):
        slugs.update({name: (raw.line, name, name) for name in _ANCHOR.findall(raw.astext())})


def _add_mermaid(
    app: Sphinx, _page: str, _template: str, _context: Any, doctree: nodes.document | None
) -> None:
    if doctree and any("mermaid" in block["classes"] for block in doctree.findall(nodes.literal_block)):
        app.add_js_file("mermaid.tiny.js", priority=800, loading_method="defer")
        app.add_js_file("diagrams.js", priority=810, loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls once, before it reads a page."""
    app.add_directive("mermaid", Mermaid)
    app.connect("source-read", _add_navigation)
    app.connect("doctree-read", _add_anchors)
    app.connect("html-page-context", _add_mermaid)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
