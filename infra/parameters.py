"""The parameters in Parameter Store that operators and other stacks read: the policy, and this deployment."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Final

from aws_cdk import Aws, Fn, Stack
from aws_cdk.aws_ssm import CfnParameter
from constructs import Construct

from infra.config import DEPLOYMENTS

DEPLOYMENTS_PATH: Final = f"/burstwatch/{DEPLOYMENTS}"
SCHEMA: Final = "burstwatch.deployment/v1"


class Parameters(Construct):
    """The deployed policy, and the description of this deployment for operators and other stacks."""

    def __init__(self, scope: Construct, construct_id: str, *, name: str) -> None:
        super().__init__(scope, construct_id)
        self._name = name
        self.policy_name = f"/burstwatch/{name}/policy"
        self.pushed_policy_name = f"{self.policy_name}-pushed"
        stack_uuid = Fn.select(2, Fn.split("/", Aws.STACK_ID))
        self.origin_parameter_name = f"{DEPLOYMENTS_PATH}/{name}/{stack_uuid}/since"
        """Here the functions write once when the stack was first deployed. The parameter outlives the stack.

        A stack that is deployed again under the same name has another ID, so it does not inherit the date.
        """

    def put_policy(self, document: str) -> None:
        """Deploy the policy. A pushed policy is in a separate parameter, and takes precedence."""
        CfnParameter(
            self,
            "Policy",
            name=self.policy_name,
            type="String",
            tier="Intelligent-Tiering",
            value=document,
            description="burstwatch: the policy as deployed; burstctl policy push overrides it",
        )

    def register_deployment(self, record: Mapping[str, Any]) -> None:
        """Register this deployment with its date.

        The functions copy the date of ``Since`` into ``origin_parameter_name``, because CloudFormation moves
        it with every update, such as a changed tag. Leave ``Since`` as it is: an upgrade must not move its
        date.
        """
        CfnParameter(
            self,
            "Since",
            name=f"{DEPLOYMENTS_PATH}/{self._name}/since",
            type="String",
            value=self._name,
            description="burstwatch: the date of this parameter is that of the first deploy",
        )
        document = {"schema": SCHEMA, "version": version("burstwatch"), "name": self._name, **record}
        document |= {"origin": self.origin_parameter_name, "stack": Aws.STACK_NAME}
        CfnParameter(
            self,
            "Deployment",
            name=f"{DEPLOYMENTS_PATH}/{self._name}",
            type="String",
            value=Stack.of(self).to_json_string(document),
            description="burstwatch: a watchdog is deployed here",
        )
