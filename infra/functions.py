"""One function of the watchdog: its code, role and logs, and the destination of events on which it fails."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from aws_cdk import Duration, RemovalPolicy
from aws_cdk.aws_iam import Role, ServicePrincipal
from aws_cdk.aws_lambda import (
    Architecture,
    CfnEventInvokeConfig,
    CfnFunction,
    Code,
    Function,
    LayerVersion,
    Runtime,
)
from aws_cdk.aws_logs import CfnLogGroup, LogGroup
from aws_cdk.aws_sqs import IQueue
from constructs import Construct

from infra.config import ROOT
from infra.dependencies import layer_folder
from infra.permissions import TRACE, Permission, grant, send_messages, write_logs

LAMBDAS: Final = ROOT / "lambdas"
RUNTIME: Final = Runtime.PYTHON_3_14
_ARCHITECTURES: Final = {"arm64": Architecture.ARM_64, "x86_64": Architecture.X86_64}
_EXCLUDED: Final = ["**/__pycache__", "**/*.pyc", "*.egg-info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionDefaults:
    """What all functions of a stack have in common."""

    code: Code
    layer: LayerVersion
    environment: Mapping[str, str]
    log_retention_days: int
    tracing: bool
    architecture: Architecture


def function_defaults(
    scope: Construct,
    *,
    environment: Mapping[str, str],
    log_retention_days: int,
    tracing: bool,
    architecture: str,
) -> FunctionDefaults:
    """One asset of our code and one layer of what it imports, for all functions."""
    layer = LayerVersion(
        scope,
        "Dependencies",
        code=Code.from_asset(str(layer_folder(architecture)), exclude=_EXCLUDED),
        description="What burstwatch imports, pinned in infra/layer.txt",
        compatible_runtimes=[RUNTIME],
        compatible_architectures=[_ARCHITECTURES[architecture]],
    )
    return FunctionDefaults(
        code=Code.from_asset(str(LAMBDAS), exclude=_EXCLUDED),
        layer=layer,
        environment=environment,
        log_retention_days=log_retention_days,
        tracing=tracing,
        architecture=_ARCHITECTURES[architecture],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """The memory and the timeout of a function, and how long Lambda retries a failed event."""

    memory_mib: int
    timeout_s: int
    retries: int = 0
    max_event_age_s: int = 60


class WatchdogFunction(Construct):
    """One handler, with its own role. The role has only the permissions that ``allow`` adds."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        handler_name: str,
        purpose: str,
        defaults: FunctionDefaults,
        sizing: Sizing,
        environment: Mapping[str, str],
        dead_letter_queue: IQueue | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.handler_name = handler_name
        self.sizing = sizing
        logs = LogGroup(self, "Logs", removal_policy=RemovalPolicy.DESTROY)
        cast("CfnLogGroup", logs.node.default_child).retention_in_days = defaults.log_retention_days
        self.role = Role(
            self,
            "Role",
            assumed_by=ServicePrincipal("lambda.amazonaws.com"),
            description=f"burstwatch: {purpose}",
        )
        self.function = Function(
            self,
            "Function",
            description=f"burstwatch: {purpose}",
            handler=f"burstwatch.handlers.{handler_name}.handler",
            code=defaults.code,
            layers=[defaults.layer],
            runtime=RUNTIME,
            architecture=defaults.architecture,
            role=self.role,
            log_group=logs,
            environment={**defaults.environment, **environment},
            memory_size=sizing.memory_mib,
            timeout=Duration.seconds(sizing.timeout_s),
        )
        self.log_group_name = logs.log_group_name
        self.allow(write_logs(logs.log_group_arn))
        if defaults.tracing:
            self._cfn_function.tracing_config = CfnFunction.TracingConfigProperty(mode="Active")
            self.allow(TRACE)
        if dead_letter_queue is not None:
            self._configure_async_invocation(dead_letter_queue)

    @property
    def arn(self) -> str:
        return str(self.function.function_arn)

    @property
    def name(self) -> str:
        return str(self.function.function_name)

    def allow(self, *permissions: Permission) -> None:
        """Add permissions to the function's role."""
        grant(self.role, *permissions)

    @property
    def _cfn_function(self) -> CfnFunction:
        return cast("CfnFunction", self.function.node.default_child)

    def _configure_async_invocation(self, dead_letter_queue: IQueue) -> None:
        """Limit the retries of a failed event, and set the queue to which Lambda sends it afterwards."""
        on_failure: Any = CfnEventInvokeConfig.OnFailureProperty(destination=dead_letter_queue.queue_arn)
        config = CfnEventInvokeConfig(
            self,
            "Patience",
            function_name=self.name,
            qualifier="$LATEST",
            maximum_retry_attempts=self.sizing.retries,
            maximum_event_age_in_seconds=self.sizing.max_event_age_s,
            destination_config=CfnEventInvokeConfig.DestinationConfigProperty(on_failure=on_failure),
        )
        self.allow(send_messages(dead_letter_queue.queue_arn, sid="KeepFailedEvents"))
        config.node.add_dependency(self.role)
