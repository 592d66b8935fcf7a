"""Every reference page by the name of its file, and the index of them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from documents.reference.alerts_page import alerts_page
from documents.reference.commands_page import commands_page
from documents.reference.markdown import page, paragraph, table
from documents.reference.metrics_page import metrics_page
from documents.reference.policy_page import policy_page
from documents.reference.tags_page import tags_page

FOLDER: Final = Path(__file__).parents[2] / "docs" / "reference"
_PAGES: Final[Mapping[str, tuple[Callable[[], str], str]]] = {
    "commands.md": (
        commands_page,
        "every command of `burstctl` and option; exit codes, environment variables, files",
    ),
    "policy.md": (policy_page, "every setting of the policy, with its default and when to change it"),
    "tags.md": (tags_page, "the tags on a volume"),
    "alerts.md": (alerts_page, "every kind of alert, with its level and its page"),
    "metrics.md": (metrics_page, "the metrics in CloudWatch and for Prometheus"),
}
_OTHER_PAGES: Final = {
    "../schemas/README.md": ("Schemas", "the JSON documents that burstwatch prints and sends"),
    "../permissions.md": ("Permissions", "what each function and each command may do"),
    "../../ddprobe/ddprobe.md": ("ddprobe", "the options, outputs and exit codes of the probe"),
    "../glossary.md": ("Glossary", "the words that outputs use"),
}


def build_pages() -> dict[str, str]:
    """The text of each page by the name of its file."""
    pages = {name: write() for name, (write, _) in _PAGES.items()}
    return pages | {"README.md": _index(pages)}


def _index(pages: Mapping[str, str]) -> str:
    rows = [(f"[{_title(pages[name])}]({name})", contents) for name, (_, contents) in _PAGES.items()]
    rows += [(f"[{title}]({path})", contents) for path, (title, contents) in _OTHER_PAGES.items()]
    return page(
        "# Reference",
        paragraph(
            "What there is, with every name and default. The pages are made from the code: `make reference`."
        ),
        table(("Page", "Contents"), rows),
    )


def _title(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ")
