from typing import Literal

from typing_extensions import TypedDict

from documents.shared import Count


class InitFileDocument(TypedDict):
    path: str
    overwritten: bool


class InitCostDocument(TypedDict):
    volumes: Count
    """Calm volumes of up to 100 GiB."""
    usd_per_month: float
    usd_per_month_after_free_tier: float


class InitDocument(TypedDict):
    """The files of a deployment, and what it would create, may do and cost.

    burstctl init --json.
    """

    schema: Literal["burstwatch.init/v1"]
    files: list[InitFileDocument]
    emails: list[str]
    slack_secret: str | None
    regions: list[str]
    """Empty: one stack, where the credentials point."""
    watch: list[str]
    """The kinds of resources that it watches: ebs, instance, efs, rds."""
    flips: bool
    spend_cap_usd_per_month: float | None
    change_hours: str | None
    resources_by_type: dict[str, Count]
    """Of each stack, by CloudFormation type."""
    actions_anywhere: list[str]
    """IAM actions on every resource, because AWS allows no narrower grant; all of them only read."""
    actions_on_opted_in_volumes: list[str]
    actions_on_own_resources: list[str]
    costs_per_region: list[InitCostDocument]
    usd_per_month_per_resource: dict[str, float]
    """The most that one calm resource of a watched kind costs, by kind; volumes are in the costs above."""
    next_commands: list[str]
