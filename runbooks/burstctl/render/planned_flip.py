"""A plan for one volume, with what an operator adds to it."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeAlias

from burstctl.cli.options import Options
from burstwatch.adapters.aws.ec2_modify import Allowed, Refused, Unclear
from burstwatch.core.ebs.pricing import US_EAST_1, Configuration, PriceChange
from burstwatch.core.flips.guards import AUTOMATIC_QUOTA, Guard, Refusal, all_spent
from burstwatch.core.flips.planning import Plan, returns_by_itself
from burstwatch.core.ledger.flip_state import QUOTA_SPAN_S, Direction, Spent
from burstwatch.core.policy.windows import LeadPolicy

DryAnswer: TypeAlias = Allowed | Refused | Unclear
"""What AWS says to a dry run."""

PRICES: Final = f"{US_EAST_1.region} list prices of {US_EAST_1.as_of:%Y-%m-%d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan; ``lasts`` is the stay the operator asked for, ``answer`` AWS's to a dry run.

    ``moved_out_again`` is why a watchdog that may act would undo a return before long. Where the policy
    stops everything automatic, ``is_stopped``.
    """

    plan: Plan
    region: str
    options: Options
    lead: LeadPolicy
    lasts: timedelta | None = None
    answer: DryAnswer | None = None
    moved_out_again: str | None = None
    is_stopped: bool = False

    @property
    def volume_id(self) -> str:
        return self.plan.order.volume_id

    @property
    def price(self) -> PriceChange:
        return PriceChange(
            before_usd_per_month=self.plan.usd_per_month_now, after_usd_per_month=self.plan.usd_per_month
        )

    @property
    def spent(self) -> tuple[Spent, ...]:
        """The modifications of the last 24 hours that AWS counts."""
        facts = self.plan.facts
        return all_spent(facts.state, facts.modification, facts.now_s)

    @property
    def is_out(self) -> bool:
        return self.plan.order.direction is Direction.OUT

    @property
    def is_wanted(self) -> bool:
        """Whether it would be carried out."""
        return self.plan.target is not None and not self.plan.refusals

    @property
    def refusals(self) -> list[Refusal]:
        """What is told to refuse it: in the middle of a modification it is not yet what it will be."""
        told = [refusal.guard for refusal in self.plan.refusals]
        untold = {Guard.NO_CHANGE_NEEDED} if Guard.MODIFICATION_IN_PROGRESS in told else set()
        return [refusal for refusal in self.plan.refusals if refusal.guard not in untold]

    @property
    def returns_by_itself(self) -> bool:
        """Whether a watchdog that may act brings it back."""
        return returns_by_itself(self.plan) and not self.is_stopped

    @property
    def returns_from_s(self) -> int | None:
        """When AWS's quota lets the watchdog bring it back; None where that is before it is to come back."""
        until_s, now_s = self.plan.order.return_after_s, int(self.plan.facts.now_s)
        spent_s = [*(one.at_s for one in self.spent), *([] if self.plan.extends else [now_s])]
        if until_s is None or len(spent_s) < AUTOMATIC_QUOTA:
            return None
        free_s = spent_s[-AUTOMATIC_QUOTA] + QUOTA_SPAN_S
        return free_s if free_s > until_s else None

    @property
    def undo(self) -> str | None:
        """The command that takes it back; None where nothing is to be done."""
        plan = self.plan
        if not self.is_wanted or plan.now is None:
            return None
        if self.is_out:
            return self._command("flip-back", self.volume_id)
        return self._command("flip", self.volume_id, *options_for(plan.now))

    def _command(self, *words: str) -> str:
        given = {"--profile": self.options.profile, "--ledger": self.options.ledger}
        options = [part for name, value in given.items() if value for part in (name, value)]
        return shlex.join(["burstctl", *words, "--region", self.region, *options])


def options_for(configuration: Configuration) -> list[str]:
    """The options of ``burstctl flip`` that ask for a configuration."""
    options = ["--to", str(configuration.volume_type), "--iops", str(configuration.iops)]
    if configuration.throughput_mib_s is not None:
        options += ["--throughput", str(configuration.throughput_mib_s)]
    return options


def sum_prices(planned: Iterable[Planned]) -> PriceChange:
    """What those that would be carried out cost together, before and after."""
    prices = [each.price for each in planned if each.is_wanted]
    return PriceChange(
        before_usd_per_month=sum(price.before_usd_per_month for price in prices),
        after_usd_per_month=sum(price.after_usd_per_month for price in prices),
    )
