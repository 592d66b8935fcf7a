"""A plan for one volume, with what an operator adds to it."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeAlias

from burstctl.cli.options import Options
from burstwatch.adapters.aws.ec2_modify import DryRunAllowed, OutcomeUnknown, Refused
from burstwatch.core.ebs.pricing import US_EAST_1, Configuration, PriceChange
from burstwatch.core.flips.flip_plan import FlipPlan, modifications_used
from burstwatch.core.flips.guards import AUTOMATIC_QUOTA
from burstwatch.core.flips.planning import returns_automatically
from burstwatch.core.flips.refusal import Guard, Refusal
from burstwatch.core.ledger.flip_state import QUOTA_PERIOD_S, Direction, ModificationUse
from burstwatch.core.policy.windows import LeadPolicy

DryRunResult: TypeAlias = DryRunAllowed | Refused | OutcomeUnknown
"""AWS's response to a dry run."""

PRICES: Final = f"{US_EAST_1.region} list prices of {US_EAST_1.as_of:%Y-%m-%d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFlip:
    """A plan; ``duration`` is the requested time on the target, ``dry_run_result`` that of AWS's dry run.

    ``reflip_reason`` is why a watchdog that may act would undo a return before long. Where the policy
    stops everything automatic, ``is_automation_disabled``.
    """

    plan: FlipPlan
    region: str
    options: Options
    lead: LeadPolicy
    duration: timedelta | None = None
    dry_run_result: DryRunResult | None = None
    reflip_reason: str | None = None
    is_automation_disabled: bool = False

    @property
    def volume_id(self) -> str:
        return self.plan.order.volume_id

    @property
    def price(self) -> PriceChange:
        return PriceChange(
            before_usd_per_month=self.plan.usd_per_month_now, after_usd_per_month=self.plan.usd_per_month
        )

    @property
    def recent_modifications(self) -> tuple[ModificationUse, ...]:
        """The modifications of the last 24 hours that AWS counts."""
        facts = self.plan.context
        return modifications_used(facts.state, facts.modification, facts.now_s)

    @property
    def is_flip(self) -> bool:
        return self.plan.order.direction is Direction.FLIP

    @property
    def is_wanted(self) -> bool:
        """Whether it would be carried out."""
        return self.plan.target is not None and not self.plan.refusals

    @property
    def is_rejected_by_aws(self) -> bool:
        """Whether AWS's dry run refused it, or its answer is not known."""
        return self.dry_run_result is not None and not isinstance(self.dry_run_result, DryRunAllowed)

    @property
    def is_allowed(self) -> bool:
        """Whether neither a guard nor AWS's dry run stops it, as far as is known."""
        return self.is_wanted and not self.is_rejected_by_aws

    @property
    def shown_refusals(self) -> list[Refusal]:
        """The refusals to show; during a modification, the volume is not yet what it will be."""
        guards = [refusal.guard for refusal in self.plan.refusals]
        hidden = {Guard.NO_CHANGE_NEEDED} if Guard.MODIFICATION_IN_PROGRESS in guards else set()
        return [refusal for refusal in self.plan.refusals if refusal.guard not in hidden]

    @property
    def returns_by_itself(self) -> bool:
        """Whether a watchdog that may act brings it back."""
        return returns_automatically(self.plan) and not self.is_automation_disabled

    @property
    def earliest_return_at_s(self) -> int | None:
        """When AWS's quota lets the watchdog bring it back; None if that is before it is to come back."""
        return_after_s, now_s = self.plan.order.return_after_s, int(self.plan.context.now_s)
        modified_at_s = [
            *(modification.at_s for modification in self.recent_modifications),
            *([] if self.plan.is_extension else [now_s]),
        ]
        if return_after_s is None or len(modified_at_s) < AUTOMATIC_QUOTA:
            return None
        free_at_s = modified_at_s[-AUTOMATIC_QUOTA] + QUOTA_PERIOD_S
        return free_at_s if free_at_s > return_after_s else None

    @property
    def undo(self) -> str | None:
        """The command that takes it back; None if nothing is to be done."""
        plan = self.plan
        if not self.is_wanted or plan.current is None:
            return None
        if self.is_flip:
            return self._command("flip-back", self.volume_id)
        return self._command("flip", self.volume_id, *flip_options(plan.current))

    def _command(self, *arguments: str) -> str:
        return shlex.join(["burstctl", *arguments, *self.options.arguments_in(self.region)])


def flip_options(configuration: Configuration) -> list[str]:
    """The options of ``burstctl flip`` that ask for a configuration."""
    options = ["--to", str(configuration.volume_type), "--iops", str(configuration.iops)]
    if configuration.throughput_mib_s is not None:
        options += ["--throughput", str(configuration.throughput_mib_s)]
    return options


def sum_prices(planned: Iterable[PlannedFlip]) -> PriceChange:
    """What those that would be carried out cost together, before and after."""
    prices = [flip.price for flip in planned if flip.is_allowed]
    return PriceChange(
        before_usd_per_month=sum(price.before_usd_per_month for price in prices),
        after_usd_per_month=sum(price.after_usd_per_month for price in prices),
    )
