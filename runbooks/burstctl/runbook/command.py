"""``burstctl runbook``: the page about an alert, in the terminal."""

import sys
from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Final

import click

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import Command, Options, common_options
from burstctl.cli.output import print_info, print_output, to_json
from burstctl.cli.pager import show_in_pager
from burstctl.cli.styled_text import StyledText, render_styled, supports_colour
from burstctl.cli.text_layout import text_columns
from burstctl.runbook.pages import PageEntry, RunbookNotFoundError, find_page, list_pages, read_page
from burstwatch.core.text import wrap

if TYPE_CHECKING:
    from documents.runbook import RunbookDocument, RunbookPageDocument, RunbooksDocument

SCHEMA: Final = "burstwatch.runbook/v1"
LIST_SCHEMA: Final = "burstwatch.runbooks/v1"


def _complete_name(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    return [page.name for page in list_pages() if page.name.casefold().startswith(incomplete.casefold())]


@click.command(
    cls=Command,
    examples=(
        ("burstctl runbook", "every page, with a line about each"),
        ("burstctl runbook BurstBalanceDraining", "what to do about that alert"),
        ("burstctl runbook FlipRefused | less", "its Markdown, for another program"),
    ),
    page="runbooks/README.md",
    without=("exit_zero", "policy", "ledger", "profile", "regions", "verbose"),
)
@click.argument("name", required=False, shell_complete=_complete_name)
@common_options
def runbook(options: Options, *, name: str | None) -> ExitCode:
    """Show the page about the alert, alarm or job NAME.

    Without a NAME, list the pages. On a terminal, a long page opens in the pager (PAGER, else less).
    Otherwise the page is printed as Markdown. AWS is not asked.

    Exits 2 if there is no such page.
    """
    if name is None:
        pages = list_pages()
        print_output(to_json(_list_document(pages)) if options.json else render_styled(_list_lines(pages)))
        print_info("to read one: burstctl runbook NAME")
        return ExitCode.OK
    try:
        page = find_page(name)
    except RunbookNotFoundError as error:
        raise click.UsageError(error.problem) from error
    text = read_page(page.name)
    if options.json:
        document: RunbookDocument = {"schema": SCHEMA, **_page_document(page), "markdown": text}
        print_output(to_json(document))
    elif sys.stdout.isatty():
        _show(text)
    else:
        print_output(text)
    return ExitCode.OK


def _show(text: str) -> None:
    """Show a page on the terminal, with the pager if it is longer than the screen."""
    from burstctl.runbook.render import render_page  # noqa: PLC0415 - rich's Markdown is for terminals only

    show_in_pager(f"{render_page(text, width=text_columns(), has_colour=supports_colour())}\n")


def _list_lines(pages: Iterable[PageEntry]) -> Iterable[list[StyledText]]:
    listed = list(pages)
    name_columns = max(len(page.name) for page in listed) + 2
    for number, (group, members) in enumerate(groupby(listed, key=lambda page: page.group)):
        if number:
            yield []
        yield [StyledText(group, "bold")]
        for page in members:
            first, *rest = wrap(page.when.split(), text_columns() - name_columns - 2)
            yield [StyledText(f"  {page.name:{name_columns}}", "cyan"), StyledText(first)]
            yield from ([StyledText(f"{'':{name_columns + 2}}{line}")] for line in rest)


def _list_document(pages: Iterable[PageEntry]) -> "RunbooksDocument":
    return {"schema": LIST_SCHEMA, "pages": [_page_document(page) for page in pages]}


def _page_document(page: PageEntry) -> "RunbookPageDocument":
    return {
        "name": page.name,
        "group": page.group,
        "when": page.when,
        "first_command": page.first_command,
    }
