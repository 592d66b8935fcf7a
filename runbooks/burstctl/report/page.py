"""A report as one page of HTML that needs nothing else: no network, no files beside it."""

import json
from base64 import b64encode
from datetime import timedelta
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

from burstctl.report.collect import Reported
from burstctl.report.page_data import page_data
from burstctl.report.summary import summary_of
from burstwatch.wiring.settings import SettingsError


def require_templates() -> None:
    """Find out before any work whether there is what a page is made with.

    Raises:
        SettingsError: it is not installed.
    """
    if find_spec("jinja2") is None:
        raise SettingsError(
            "--html needs jinja2, which is not installed here: pip install 'burstwatch[desk]', or make setup"
        )


def render_page(reported: Reported, *, last: timedelta, runbooks_url: str) -> str:
    """The whole page; its content policy allows its own style and script, nothing else from anywhere."""
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - only this needs it
    from markupsafe import Markup  # noqa: PLC0415 - comes with it

    style, script = _file("report.css"), _script()
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_file("report.html")).render(
        style=Markup(style),  # noqa: S704 - ours
        style_hash=_hash(style),
        script=Markup(script),  # noqa: S704 - ours
        script_hash=_hash(script),
        data=Markup(inert_json(page_data(reported))),  # noqa: S704 - nothing in it can end the element
        **summary_of(reported, last=last, runbooks_url=runbooks_url),
    )


def inert_json(document: Any) -> str:
    """JSON that stays data wherever it stands in HTML: in ASCII, without what begins or ends a tag."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _script() -> str:
    return '"use strict";\n(() => {\n' + _file("picture.js") + _file("report.js") + "})();\n"


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
