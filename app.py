"""Builds the app: a stage and its policy in, a stack for each region out."""

import sys
from pathlib import Path

from aws_cdk import App, Environment, Validations
from cdk_nag import AwsSolutionsChecks

from infra.config import StageConfig, StageError
from infra.dependencies import LayerError, ensure_layer
from infra.policy import DeployedPolicy, read_configuration
from infra.watchdog_stack import WatchdogStack


def add_stacks(app: App, stage: StageConfig, policy: DeployedPolicy) -> None:
    """A stack for each region; without any, one for the region that the CDK finds."""
    if not stage.regions:
        env = Environment(account=stage.account) if stage.account else None
        WatchdogStack(app, stage.name, stage=stage, policy=policy, env=env)
    for region in stage.regions:
        env = Environment(account=stage.account, region=region)
        WatchdogStack(app, f"{stage.name}-{region}", stage=stage, policy=policy, env=env)


def main() -> int:
    """Synthesize; what is wrong with the configuration is said all at once."""
    app = App()
    stage_file = app.node.try_get_context("stage")
    try:
        stage, policy = read_configuration(Path(stage_file) if stage_file else None)
        ensure_layer(stage.architecture)
    except (StageError, LayerError) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - what the CDK shows to whoever deploys
        return 1
    add_stacks(app, stage, policy)
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()
    return 0


if __name__ == "__main__":
    sys.exit(main())
