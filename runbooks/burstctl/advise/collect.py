"""Collects what advice needs: the volumes, their history, and the prices of their region."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from burstctl.advise.price_list import ENDPOINT_REGION, PricesResult, read_prices
from burstctl.advise.rightsizing import Advice, AdviceInput, FleetAdvice, advise, is_advisable, summarise
from burstctl.advise.usage import Usage, summarise_usage
from burstctl.context.context import CommandContext
from burstctl.context.metric_resolution import choose_period_s
from burstctl.context.resources import resolve_volumes
from burstctl.context.volume_histories import (
    METRIC_LAG_S,
    VolumeSelection,
    check_read_cost,
    read_histories,
    read_instance_limits,
    select_volumes,
)
from burstwatch.adapters.aws.metric_history import ALL_METRICS, METRICS_PER_VOLUME
from burstwatch.core.durations import DAY_S
from burstwatch.core.ebs.metric_history import MetricHistory
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ledger.flip_state import Flip
from burstwatch.core.policy.volume_tags import read_tags
from burstwatch.wiring.bootstrap import build_client

MAX_USD: Final = 5.0
"""Reads that cost more than this need the operator's consent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceRequest:
    """What an operator wants advice on; without names, all gp2 volumes of the region and all flipped ones."""

    names: Sequence[str] = ()
    days: int = 14
    percentile: float = 99.9
    assumes_yes: bool = False

    @property
    def is_whole_fleet(self) -> bool:
        return not self.names


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceReport:
    """The advice, sorted by risk and then by dollars, and the volumes without advice.

    ``start_s`` to ``end_s`` is the requested span. ``context_options`` are the options with which another
    command uses the same account, region and ledger.
    """

    request: AdviceRequest
    region: str
    context_options: Sequence[str]
    ledger: str
    now_s: float
    start_s: int
    end_s: int
    period_s: int
    advice: Sequence[Advice]
    fleet: FleetAdvice
    prices: PricesResult
    selection: VolumeSelection

    @property
    def ends_the_watch(self) -> bool:
        """Whether every volume of the region was judged, and none would still depend on burst credits."""
        covers_fleet = self.request.is_whole_fleet and not (
            self.selection.has_failed or self.selection.ignored
        )
        return covers_fleet and self.fleet.needs_no_watch


def collect_advice(context: CommandContext, request: AdviceRequest) -> AdviceReport:
    """Choose the volumes, read what they did and what they cost, and judge each.

    Raises:
    SettingsError: the reads would cost more than ``MAX_USD`` without the operator's consent.
    """
    context.progress.begin(f"reading {request.days} days")
    try:
        return _collect_advice(context, request)
    finally:
        context.progress.end()


def _collect_advice(context: CommandContext, request: AdviceRequest) -> AdviceReport:
    services = context.services
    now_s = services.clock()
    flips = {
        volume_id: state.flip
        for volume_id, state in services.ledger.states().items()
        if state.flip is not None
    }
    selection = select_volumes(
        services.build_collector(now_s),
        resolve_volumes(context, request.names, prefers=is_advisable),
        services.policy.mode,
        _unsuited_reason,
        more_ids=flips.keys(),
    )
    volume_count = len(selection.volumes)
    check_read_cost(volume_count, METRICS_PER_VOLUME, max_usd=MAX_USD, assumes_yes=request.assumes_yes)
    period_s = choose_period_s(volume_count, request.days)
    end_s = int(now_s - METRIC_LAG_S) // period_s * period_s
    start_s = end_s - request.days * DAY_S
    prices = _read_prices(context)
    instances = read_instance_limits(context, selection.volumes, selection.failures)
    usages: dict[str, Usage | None] = {}

    def add_usage(volume: Volume, history: MetricHistory) -> None:
        usages[volume.volume_id] = summarise_usage(volume, history, percentile=request.percentile)

    read_histories(context, selection, start_s, end_s, period_s=period_s, metrics=ALL_METRICS, add=add_usage)
    unavailable = services.unavailable_types(selection.volumes, now_s)
    context_options = context.options.arguments_in(services.location.region)
    advice = [
        advise(
            AdviceInput(
                volume=volume,
                usage=usages[volume.volume_id],
                prices=prices.table,
                headroom_pct=services.policy.flip.headroom_pct,
                instance=instances.get(volume.instance_id or ""),
                flipped_from=_original_of(flips.get(volume.volume_id)),
                unavailable=unavailable[volume.volume_id],
                context_options=context_options,
                **_critical_settings(context, volume),
            )
        )
        for volume in selection.volumes
        if volume.volume_id in usages
    ]
    selection.count_calls(services.calls)
    return AdviceReport(
        request=request,
        region=services.location.region,
        context_options=context_options,
        ledger=context.ledger_location,
        now_s=now_s,
        start_s=start_s,
        end_s=end_s,
        period_s=period_s,
        advice=sorted(advice, key=lambda item: item.urgency),
        fleet=summarise(advice),
        prices=prices,
        selection=selection,
    )


def _unsuited_reason(volume: Volume) -> str | None:
    if is_advisable(volume):
        return None
    command = f"burstctl which {volume.volume_id}"
    return (
        f"it is {volume.volume_type}, and advise recommends types for gp2, gp3, io1 and io2 volumes only;"
        f" {command} shows its limits"
    )


def _read_prices(context: CommandContext) -> PricesResult:
    session = context.session.in_region(ENDPOINT_REGION)
    client = build_client(session, "pricing", context.services.calls)
    return read_prices(client, context.services.location.region)


def _original_of(flip: Flip | None) -> Configuration | None:
    return flip.original if flip is not None else None


def _critical_settings(context: CommandContext, volume: Volume) -> dict[str, Any]:
    """Whether it is critical, and its type then: the tag's, or gp3, as an alert proposes.

    One that is provisioned for durability already is not moved to gp3.
    """
    settings = read_tags(volume.tags, context.services.policy.mode)
    is_provisioned = volume.volume_type in (VolumeType.IO1, VolumeType.IO2)
    volume_type = settings.target_override.volume_type or (
        VolumeType.IO2 if is_provisioned else VolumeType.GP3
    )
    return {"is_critical": settings.is_critical, "critical_type": volume_type}
