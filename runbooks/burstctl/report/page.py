"""The report as one self-contained HTML page: no network, no other files."""

import json
from base64 import b64encode
from datetime import timedelta
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

from burstctl.cli.pictures_extra import install_pictures
from burstctl.report.collect import FleetReport
from burstctl.report.page_data import build_page_data
from burstctl.report.summary import build_summary
from burstwatch.wiring.settings import SettingsError


def require_templates() -> None:
    """Find out before any work whether there is what a page is made with.

    Raises:
        SettingsError: it is not installed.
    """
    if find_spec("jinja2") is None:
        raise SettingsError(f"--html needs jinja2, which is not installed here; {install_pictures()}")


def render_page(fleet_report: FleetReport, *, lookback: timedelta, runbooks_url: str) -> str:
    """The whole page; its content policy allows its own style and script, nothing else from anywhere."""
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - only this needs it
    from markupsafe import Markup  # noqa: PLC0415 - comes with it

    style, script = _read_asset("report.css"), _build_script()
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_read_asset("report.html")).render(
        style=Markup(style),  # noqa: S704 - ours
        style_hash=_csp_hash(style),
        script=Markup(script),  # noqa: S704 - ours
        script_hash=_csp_hash(script),
        data=Markup(escape_json(build_page_data(fleet_report))),  # noqa: S704 - nothing in it can end the element
        **build_summary(fleet_report, lookback=lookback, runbooks_url=runbooks_url),
    )


def escape_json(document: Any) -> str:
    """JSON that stays data anywhere in HTML: ASCII, without the characters that begin or end a tag."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _build_script() -> str:
    return '"use strict";\n(() => {\n' + _read_asset("picture.js") + _read_asset("report.js") + "})();\n"


def _read_asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _csp_hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
