"""The stacks that tests look at, synthesized once in a process."""

import atexit
import json
import os
import shutil
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from support.paths import ROOT
from support.template_reader import Synthesized

os.environ["PATH"] = (
    f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # where jsii looks for node
)

from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks

from app import add_stacks
from infra.dependencies import ensure_layer
from infra.policy import read_configuration

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


_SMALL = {"aws:cdk:disable-asset-staging": True}
"""Leaves what is deployed where it is, in place of a copy for each stack."""


@cache
def synth(stage: str = "", *, whole: bool = False) -> Synthesized:
    """The stack of a stage, given as YAML; of several regions the first.

    A ``whole`` one has a copy of what it deploys, and cdk-nag has looked at it.
    """
    folder = Path(mkdtemp(prefix="burstwatch-cdk-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    stage_file = folder / "stage.yaml"
    stage_file.write_text(stage)
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    app = App(outdir=str(folder / "out"), context=context if whole else context | _SMALL)
    config, policy = read_configuration(stage_file)
    ensure_layer(config.architecture)
    add_stacks(app, config, policy)
    if whole:
        Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()
    [path, *_] = sorted((folder / "out").glob("*.template.json"))
    return Synthesized(template=json.loads(path.read_text()), folder=folder / "out")


def default_stack() -> Synthesized:
    """The stack that `cdk deploy` makes without any configuration."""
    return synth(whole=True)


def full_stack() -> Synthesized:
    """The stack with every option taken, in a region of its own."""
    return synth(EVERYTHING, whole=True)
