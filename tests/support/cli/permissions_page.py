"""The page of permissions, as data."""

import json
import re

from support.paths import ROOT

PAGE = (ROOT / "docs" / "permissions.md").read_text()


SECTIONS = dict(re.findall(r"^## (.+)\n((?:(?!^## ).*\n)*)", PAGE, re.MULTILINE))


def policies(section):
    return [json.loads(text) for text in re.findall(r"```json\n(.*?)```", SECTIONS[section], re.DOTALL)]


def allowed_actions(*sections):
    return {
        action
        for section in sections
        for policy in policies(section)
        for statement in policy["Statement"]
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
    }


def operations(actions):
    return {action.partition(":")[2] for action in actions}
