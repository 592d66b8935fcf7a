"""The ledger: the only durable state, and so the only resource that is retained when the stack is deleted."""

from typing import Final, cast

from aws_cdk import RemovalPolicy
from aws_cdk.aws_dynamodb import (
    Attribute,
    AttributeType,
    Billing,
    CfnGlobalTable,
    ITableV2,
    PointInTimeRecoverySpecification,
    TableV2,
)
from constructs import Construct

LOGICAL_ID: Final = "Ledger"
"""Part of our contract: with another logical ID, CloudFormation would create a new, empty table."""

EXPIRY_ATTRIBUTE: Final = "expires_at_s"
"""When DynamoDB may delete an item. Only the items that record sent messages have it.

It is not a timer: items are deleted within a few days. Source: DynamoDB developer guide, "Time to Live".
"""


class LedgerTable(Construct):
    """The ledger's table: created by the stack and retained, or an existing one."""

    def __init__(self, scope: Construct, construct_id: str, *, existing: str | None) -> None:
        super().__init__(scope, construct_id)
        self.table: ITableV2 = self._make() if existing is None else self._find(existing)

    def _find(self, name: str) -> ITableV2:
        return TableV2.from_table_name(self, "Table", name)

    def _make(self) -> ITableV2:
        table = TableV2(
            self,
            "Table",
            partition_key=Attribute(name="pk", type=AttributeType.STRING),
            sort_key=Attribute(name="sk", type=AttributeType.STRING),
            billing=Billing.on_demand(),
            point_in_time_recovery_specification=PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            deletion_protection=True,
            time_to_live_attribute=EXPIRY_ATTRIBUTE,
            removal_policy=RemovalPolicy.RETAIN,
        )
        cast("CfnGlobalTable", table.node.default_child).override_logical_id(LOGICAL_ID)
        return table
