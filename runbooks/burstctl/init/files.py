"""The two files of a deployment: the stage and its policy, with comments."""

from math import inf
from typing import Final

import yaml

from burstctl.init.answers import Answers
from burstctl.policy.settings import list_settings, render_setting
from burstwatch.core.policy.policy import VERSION, Mode, Policy

STAGE_FILE: Final = "stage.yaml"
POLICY_FILE: Final = "policy.yaml"
_STAGE_HEAD: Final = """\
# A deployment of burstwatch: cdk deploy --all -c stage=FILE, in a checkout,
# whose docs/deploying.md explains every key. What is left out has its default."""
_STAGE_TAIL: Final = """\
# account: "123456789012"  # refuse to deploy anywhere else
# tags: {owner: TEAM}  # on every resource of the stack
"""
_POLICY_HEAD: Final = """\
# The policy of a deployment of burstwatch; burstctl policy check reports every fault.
# What is left out has its default: burstctl policy show prints every setting."""
_FLIP_SETTINGS: Final = ("mode.highest", "flip.spend_cap_usd_per_month", "flip.change_hours")


def make_policy(answers: Answers) -> Policy:
    """The policy that the answers describe."""
    flip = {"spend_cap_usd_per_month": answers.spend_cap, "change_hours": answers.change_hours}
    section = {"flip": flip} if answers.flips else {"mode": {"highest": str(Mode.PROPOSE)}}
    return Policy.from_mapping({"version": VERSION, **section}).watching(answers.kinds)


def render_policy_file(answers: Answers) -> str:
    """The text of the policy: the settings that the answers decide."""
    lines = [_POLICY_HEAD, f"version: {VERSION}"]
    paths = _FLIP_SETTINGS if answers.flips else _FLIP_SETTINGS[:1]
    sections: set[str] = set()
    for setting in list_settings(make_policy(answers)):
        if setting.path in paths or (setting.key == "watch" and setting.is_changed):
            lines += _section_heads(setting.section, sections)
            lines += render_setting(setting, comment=setting.description)
    return "\n".join(lines) + "\n"


def _section_heads(section: str, written: set[str]) -> list[str]:
    """The lines that open a section and those around it, which are ``written`` once."""
    parts = section.split(".")
    paths = [".".join(parts[: depth + 1]) for depth in range(len(parts))]
    new_paths = [path for path in paths if path not in written]
    written.update(new_paths)
    return [f"{'  ' * path.count('.')}{path.rpartition('.')[2]}:" for path in new_paths]


def render_stage_file(answers: Answers) -> str:
    """The text of the stage; what it leaves open is there as a comment."""
    emails, secret, regions = answers.emails, answers.slack_secret, answers.regions
    flips_comment = "only volumes that opted in" if answers.flips else "no permission to modify anything"
    lines = [
        _line("name", "burstwatch", "a second deployment needs another"),
        _line("regions", list(regions or ["us-east-1"]), "a stack in each", is_active=bool(regions)),
        _line("policy", POLICY_FILE, "as seen from this file"),
        "recipients:",
        "  "
        + _line(
            "emails", list(emails or ["oncall@example.com"]), "each must confirm once", is_active=bool(emails)
        ),
        "  "
        + _line(
            "slack_secret",
            secret or "burstwatch/slack",
            "in Secrets Manager: a webhook's address",
            is_active=secret is not None,
        ),
        _line("resources", list(map(str, answers.kinds)), "the kinds that it may read"),
        _line("flips", answers.flips, flips_comment),
    ]
    return "\n".join([_STAGE_HEAD, *lines, _STAGE_TAIL])


def _line(key: str, value: object, comment: str, *, is_active: bool = True) -> str:
    """A key with a comment; one that is not active is a comment itself."""
    # a list stays on the line of its key, and nothing else is in braces
    flow_style = None if isinstance(value, list) else False
    entry = yaml.safe_dump({key: value}, default_flow_style=flow_style, width=inf).strip()
    return f"{'' if is_active else '# '}{entry}  # {comment}"
