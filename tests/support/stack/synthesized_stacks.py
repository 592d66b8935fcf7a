"""The stacks that tests look at, synthesized once in a process."""

import atexit
import json
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from support.stack.template_reader import Synthesized

EVERYTHING = """
name: watch-all
account: "111122223333"
regions: [eu-central-1]
recipients:
  emails: [oncall@example.com, storage@example.com]
  slack_secret: burstwatch/slack
  chat: true
alarms:
  lowest_burst_balance_pct: 20
tracing: true
log_retention_days: 400
tags: {owner: storage, stage: production}
"""
"""A stage with every option taken."""


@cache
def synth(stage: str = "", *, copies: bool = False, is_checked: bool = False) -> Synthesized:
    """The stack of a stage, given as YAML; of several regions the first.

    One with ``copies`` has what it deploys beside it; cdk-nag has looked at one that ``is_checked``.
    """
    from support.stack.cdk_app import synthesize  # noqa: PLC0415 - the CDK takes seconds, and few tests want it

    folder = Path(mkdtemp(prefix="burstwatch-cdk-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    stage_file = folder / "stage.yaml"
    stage_file.write_text(stage)
    synthesize(stage_file, folder / "out", copies=copies, is_checked=is_checked)
    [path, *_] = sorted((folder / "out").glob("*.template.json"))
    return Synthesized(template=json.loads(path.read_text()), folder=folder / "out")


def default_stack() -> Synthesized:
    """The stack that `cdk deploy` makes without any configuration."""
    return synth(copies=True, is_checked=True)


def full_stack() -> Synthesized:
    """The stack with every option taken, in a region of its own."""
    return synth(EVERYTHING, is_checked=True)
