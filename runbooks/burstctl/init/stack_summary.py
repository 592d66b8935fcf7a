"""What a stack consists of and may do, without the CDK: ``stack.json`` is counted in synthesized templates.

``pytest tests/infra --rewrite`` writes the file again after the stack has changed.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from burstctl.init.monthly_cost import StackResources, list_monthly_costs
from burstwatch.core.resource_type import ResourceType

SUMMARY_FILE: Final = Path(__file__).with_name("stack.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSummary:
    """A stack without recipients.

    ``resource_counts`` are by CloudFormation type. ``metrics`` is how many of its own it sends in a quiet
    pass. The IAM actions of its functions are those that apply to every resource (reading only), those that
    the opt-in tag limits, and those on resources of the stack itself. ``actions_of_kinds`` are what each
    watched kind of resource needs besides the first.
    """

    resource_counts: Mapping[str, int]
    billed: StackResources
    metrics: int
    actions_anywhere: tuple[str, ...]
    actions_on_opted_in_volumes: tuple[str, ...]
    actions_on_own_resources: tuple[str, ...]
    actions_of_kinds: Mapping[ResourceType, tuple[str, ...]]

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], kinds: Mapping[ResourceType, Sequence[str]]) -> Self:
        """The summary as ``stack.json`` has it, with the actions that each watched kind needs."""
        actions = {key: tuple(value) for key, value in mapping.items() if key.startswith("actions_")}
        anywhere = actions["actions_anywhere"]
        return cls(
            resource_counts=mapping["resource_counts"],
            billed=StackResources(**mapping["billed"]),
            metrics=mapping["metrics"],
            actions_of_kinds={
                kind: tuple(action for action in needed if action not in anywhere)
                for kind, needed in kinds.items()
            },
            **actions,
        )

    def usd_per_month(self, volumes: int) -> tuple[float, float]:
        """Dollars for this many calm volumes of up to 100 GiB: at list price, and after the free tier."""
        *_, (_, list_price, after_free_tier) = list_monthly_costs(volumes, self.billed, self.metrics)
        return list_price, after_free_tier


def read_summary(*, flips: bool, kinds: Iterable[ResourceType] = (ResourceType.EBS,)) -> StackSummary:
    """The stack with flips, or one that only alerts, which watches these kinds of resources."""
    summaries = json.loads(SUMMARY_FILE.read_text(encoding="utf-8"))
    actions = summaries["actions_of_kinds"]
    return StackSummary.from_mapping(
        summaries["flips" if flips else "alerts_only"],
        {kind: actions[kind] for kind in kinds if kind in actions},
    )
