"""The app that `cdk synth` runs, run in this process."""

import json
import os
import sys
from pathlib import Path

from support.paths import ROOT

os.environ["PATH"] = (
    f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # where jsii looks for node
)
os.environ["CDK_VALIDATION"] = "false"  # seconds for each template; tests/infra/test_synth.py has it on

from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks

from app import add_stacks
from infra.dependencies import ensure_layer
from infra.policy import read_configuration

_SMALL = {"aws:cdk:disable-asset-staging": True}
"""Leaves what is deployed where it is, in place of a copy for each stack."""


def synthesize(stage_file: Path, out: Path, *, copies: bool = False, is_checked: bool = False) -> None:
    """Write the templates of a stage into a folder; cdk-nag has looked at what ``is_checked``.

    With ``copies``, what is deployed is copied there too.
    """
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    app = App(outdir=str(out), context=context if copies else context | _SMALL)
    config, policy = read_configuration(stage_file)
    ensure_layer(config.architecture)
    add_stacks(app, config, policy)
    if is_checked:
        Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()
