"""The runbook pages: which there are, what each is about, and their text for a reader without links."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from burstwatch.core.errors import BurstwatchError
from burstwatch.core.text import sanitise

INDEX: Final = "README"
"""The page that lists the others; its tables have a row for each of them."""

_PACKAGED_FOLDER: Final = "pages"
"""Below this package, in a wheel: ``runbooks/wheel_pages.py`` puts the pages there."""
_CHECKOUT_FOLDER: Final = Path(__file__).parents[2]
"""The folder ``runbooks`` of a checkout."""

_MAX_SHOWN_CHARS: Final = 60  # no name of a page is longer
_MIN_SIMILARITY: Final = 0.75  # below it, a suggestion is more often wrong than right
_SECTION_PATTERN: Final = re.compile(r"## (?P<title>.+)")
_ROW_PATTERN: Final = re.compile(
    r"\| \[(?P<name>\w+)\]\((?P=name)\.md\) \| (?P<when>.+?) \| `(?P<command>.+)` \|"
)
_PATH_PATTERN: Final = re.compile(r"(?:.*/)?(?P<name>[^/#]+?)(?:\.md|\.html)?(?:#.*)?")
_DIRECTIVE_PATTERN: Final = re.compile(r"^ *<!--.*-->\n", re.MULTILINE)
_ANCHOR_PATTERN: Final = re.compile(r'<a id="\w+"></a>')
_PAGE_LINK_PATTERN: Final = re.compile(r"\[(?P<text>[^]]+)\]\((?P<name>\w+)\.md(?:#[\w-]+)?\)")
_FILE_LINK_PATTERN: Final = re.compile(r"\[(?P<text>[^]]+)\]\(\.\./(?P<path>[\w./-]+)(?:#[\w-]+)?\)")
_SECTION_LINK_PATTERN: Final = re.compile(r"\[(?P<text>[^]]+)\]\(#[\w-]+\)")


class RunbookNotFoundError(BurstwatchError):
    """There is no page of this name; the message suggests those that may be meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageEntry:
    """A page as the index lists it: its group, when it is needed, and the first command on it."""

    name: str
    group: str
    when: str
    first_command: str


def list_pages() -> list[PageEntry]:
    """Every page, in the order and the groups of the index."""
    return list(_parse_index(_read(INDEX)))


def find_page(name: str) -> PageEntry:
    """The page of this name, in any case; a path or a link to it is a name too.

    ``runbooks/FlipRefused.md#held`` is FlipRefused.

    Raises:
        RunbookNotFoundError: there is no such page.
    """
    match = _PATH_PATTERN.fullmatch(name.strip())
    wanted = (match["name"] if match else name).casefold()
    by_name = {page.name.casefold(): page for page in list_pages()}
    if wanted in by_name:
        return by_name[wanted]
    completions = [known for known in by_name if wanted and known.startswith(wanted)]
    similar = completions or get_close_matches(wanted, by_name, cutoff=_MIN_SIMILARITY)
    hint = (
        f"did you mean {' or '.join(by_name[known].name for known in similar)}? burstctl runbook lists all"
        if similar
        else "burstctl runbook lists them"
    )
    raise RunbookNotFoundError(f"there is no runbook page {sanitise(name, _MAX_SHOWN_CHARS)!r}", fix=hint)


def read_page(name: str) -> str:
    """The page in Markdown; a link to another page becomes the command that shows it."""
    text = _ANCHOR_PATTERN.sub("", _DIRECTIVE_PATTERN.sub("", _read(name)))
    text = _PAGE_LINK_PATTERN.sub(_describe_page_link, text)
    text = _FILE_LINK_PATTERN.sub(r"\g<text> (\g<path> in the repository)", text)
    return _SECTION_LINK_PATTERN.sub(r"\g<text>", text).rstrip("\n")


def _describe_page_link(match: re.Match[str]) -> str:
    text, name = match["text"], match["name"]
    return name if text == name else f"{text} (`burstctl runbook {name}`)"


def _parse_index(text: str) -> Iterator[PageEntry]:
    group = ""
    for line in text.splitlines():
        if section := _SECTION_PATTERN.fullmatch(line):
            group = section["title"]
        elif row := _ROW_PATTERN.fullmatch(line):
            yield PageEntry(
                name=row["name"],
                group=group,
                when=row["when"].replace("`", ""),
                first_command=row["command"],
            )


def _read(name: str) -> str:
    return (_folder() / f"{name}.md").read_text(encoding="utf-8")


def _folder() -> Traversable:
    """The folder of the pages: inside an installed package, else in the checkout."""
    packaged = resources.files(__package__) / _PACKAGED_FOLDER
    return packaged if packaged.is_dir() else _CHECKOUT_FOLDER
