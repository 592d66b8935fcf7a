"""What a run would do, for how much and how long: as a document and in words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from burstctl.aws_check.fact import Fact
from burstctl.aws_check.host import ACTIONS as HOST_ACTIONS
from burstctl.aws_check.host import CLEANUP_MINUTES, HOST_GP2_GIB, INSTANCE_TYPE
from burstctl.aws_check.not_tried import NOT_TRIED
from burstctl.aws_check.permissions import iam_policy, is_privileged, privileged_iam_policy
from burstctl.aws_check.prices import OTHER_REGION_FACTOR, fact_usd, host_usd, total_usd
from burstctl.aws_check.resources import TAG
from burstctl.cli.text_layout import text_columns, wrap_hanging
from burstwatch.core.ebs.pricing import PRICE_SOURCE, US_EAST_1
from burstwatch.core.text import format_duration, format_usd
from burstwatch.wiring.settings import SettingsError

if TYPE_CHECKING:
    from documents.aws_check import AwsCheckPlanDocument

SCHEMA: Final = "burstwatch.aws-check-plan/v1"
NEVER_RUN_NOTICE: Final = (
    "This command has never run on AWS: it was tested against a simulator only, so check what surprises you."
)
_BASE_ACTIONS: Final = ("sts:GetCallerIdentity",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The facts to try, and where; no ``region``: only a list, at the prices of us-east-1."""

    facts: Sequence[Fact]
    region: str | None = None

    @property
    def usd(self) -> float:
        """The most that it costs, in dollars."""
        return total_usd(self.facts, self.priced_region)

    @property
    def priced_region(self) -> str:
        return self.region or US_EAST_1.region

    @property
    def minutes(self) -> int:
        """The longest that it takes, with cleaning up: all facts are tried at the same time."""
        return max((fact.minutes for fact in self.facts), default=0) + CLEANUP_MINUTES

    @property
    def host_minutes(self) -> int:
        """The longest that the shared instance runs, in minutes; 0 if no fact needs it."""
        minutes = [fact.minutes for fact in self.facts if fact.needs_host]
        return max(minutes) + CLEANUP_MINUTES if minutes else 0

    @property
    def actions(self) -> list[str]:
        """The IAM actions that all of it needs."""
        actions = {action for fact in self.facts for action in fact.actions} | set(_BASE_ACTIONS)
        return sorted(actions | set(HOST_ACTIONS if self.host_minutes else ()))


def choose_facts(facts: Sequence[Fact], names: Sequence[str]) -> list[Fact]:
    """The facts with these names, in their usual order; all facts if there are no names.

    Raises:
        SettingsError: there is no fact of a name.
    """
    by_name = {fact.name: fact for fact in facts}
    if unknown := [name for name in names if name not in by_name]:
        raise SettingsError(
            f"the fact {unknown[0]} does not exist", fix=f"--list shows all, such as {facts[0].name}"
        )
    return [fact for fact in facts if not names or fact.name in names]


def to_document(plan: Plan, *, ceiling_usd: float) -> "AwsCheckPlanDocument":
    """As JSON."""
    return {
        "schema": SCHEMA,
        "region": plan.region,
        "most_usd": round(plan.usd, 4),
        "ceiling_usd": ceiling_usd,
        "most_minutes": plan.minutes,
        "host_usd": round(host_usd(plan.facts, plan.priced_region), 4),
        "actions": plan.actions,
        "iam_policy": iam_policy(plan.actions),
        "privileged_iam_policy": privileged_iam_policy(plan.actions),
        "facts": [
            {
                "name": fact.name,
                "question": fact.question,
                "why": fact.why,
                "most_usd": round(fact_usd(fact, plan.priced_region), 4),
                "most_minutes": fact.minutes,
                "needs_host": fact.needs_host,
                "actions": list(fact.actions),
            }
            for fact in plan.facts
        ],
        "not_tried": [{"name": item.name, "reason": item.reason} for item in NOT_TRIED],
    }


def render_plan(plan: Plan) -> str:
    """The plan on at most 80 columns."""
    return "\n".join(line for sentence in _sentences(plan) for line in wrap_hanging(sentence, text_columns()))


def render_list(plan: Plan) -> str:
    """Every fact with its question and its reason, and what is not covered."""
    lines = []
    for fact in plan.facts:
        lines += [
            fact.name,
            *(
                f"  {line}"
                for item in (fact.question, fact.why)
                for line in wrap_hanging(item, text_columns() - 2)
            ),
        ]
    lines += ["", "Not tried, and why:", ""]
    for item in NOT_TRIED:
        lines += [
            *wrap_hanging(item.name, text_columns()),
            *(f"  {line}" for line in wrap_hanging(item.reason, text_columns() - 2)),
        ]
    return "\n".join(lines)


def _sentences(plan: Plan) -> Iterator[str]:
    yield NEVER_RUN_NOTICE
    yield ""
    yield f"{'FACT':<24}{'AT MOST':>10}{'USD':>10}"
    for fact in plan.facts:
        host_mark = "*" if fact.needs_host else ""
        yield f"{fact.name:<24}{fact.minutes:>6} min{fact_usd(fact, plan.priced_region):>10.4f}{host_mark}"
    if plan.host_minutes:
        usd = host_usd(plan.facts, plan.priced_region)
        yield f"{'* shared instance':<24}{plan.host_minutes:>6} min{usd:>10.4f}"
    yield f"{'in all':<24}{plan.minutes:>6} min{plan.usd:>10.4f}"
    yield ""
    elsewhere = (
        "" if plan.priced_region == US_EAST_1.region else f", times {OTHER_REGION_FACTOR:g} for this Region"
    )
    duration = format_duration(plan.minutes * 60)
    yield f"At most {format_usd(plan.usd)} ({PRICE_SOURCE}{elsewhere}) and {duration}."
    if plan.host_minutes:
        yield (
            f"One {INSTANCE_TYPE} without access from outside and {HOST_GP2_GIB} GiB of gp2 are created with"
            f" it and end with it; it ends itself after {plan.host_minutes} min."
        )
    for fact in plan.facts:
        if fact.cost.instances:
            yield (
                f"{fact.name} has its own instance with {fact.cost.gp2_gib:,} GiB of gp2, which ends itself"
                f" after {fact.minutes + CLEANUP_MINUTES} min."
            )
    if privileged := [fact.name for fact in plan.facts if any(map(is_privileged, fact.actions))]:
        yield (
            f"{', '.join(privileged)}: only with privileged_iam_policy of --dry-run --json, whose holder can"
            " gain any permission; reported as not permitted without it."
        )
    yield (
        f"All that is created carries the tag {TAG} and is removed at the end, after Ctrl-C too; after a"
        " crash by burstctl aws-check --clean-up. No other resource is modified or deleted."
    )
