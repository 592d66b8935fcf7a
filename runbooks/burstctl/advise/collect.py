"""Collects what advice needs: the volumes, their history, and the prices of their region."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from burstctl.advise.price_list import ENDPOINT_REGION, PricesResult, read_prices
from burstctl.advise.rightsizing import Advice, AdviceInput, FleetAdvice, advise, is_advisable, summarise
from burstctl.advise.usage import Usage, summarise_usage
from burstctl.context.context import CommandContext
from burstctl.context.metric_resolution import choose_period_s
from burstctl.context.stacks import open_aws_session
from burstwatch.adapters.aws.metric_history import METRICS_PER_VOLUME, HistoryReader
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.sizing import InstanceLimits
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ledger.flip_state import Flip
from burstwatch.core.policy.volume_tags import read_tags
from burstwatch.core.text import format_usd
from burstwatch.core.watch.api_cost import USD_PER_METRIC
from burstwatch.engine.collector import Collector
from burstwatch.wiring.bootstrap import WORKERS, build_client
from burstwatch.wiring.settings import SettingsError

MAX_USD: Final = 5.0
"""Reads that cost more than this need the operator's consent."""

_DAY_S: Final = 24 * 3600
_METRIC_LAG_S: Final = 120  # the last two minutes may be incomplete; AWS documents no delay


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceRequest:
    """What an operator wants advice on; without IDs, all gp2 volumes of the region and all flipped ones."""

    volume_ids: Sequence[str] = ()
    days: int = 14
    percentile: float = 99.9
    assumes_yes: bool = False

    @property
    def is_whole_fleet(self) -> bool:
        return not self.volume_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceReport:
    """The advice, sorted by risk and then by dollars, and the volumes without advice.

    ``unsuited`` are volumes of types without advice, ``ignored`` those with the ignore tag, and ``unread``
    those whose history could not be read. ``start_s`` to ``end_s`` is the requested span.
    ``context_options`` are the options with which another command uses the same account, region and policy.
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
    unsuited: Mapping[str, str]
    ignored: Sequence[str]
    missing: Sequence[str]
    unread: Mapping[str, str]
    failures: Sequence[str]
    metrics_requested: int
    api_calls: Mapping[str, int]

    @property
    def has_failed(self) -> bool:
        return bool(self.failures or self.missing or self.unread)

    @property
    def read_cost_usd(self) -> float:
        """What the reads cost."""
        return self.metrics_requested * USD_PER_METRIC

    @property
    def ends_the_watch(self) -> bool:
        """Whether every volume of the region was judged, and none would still depend on burst credits."""
        covers_fleet = self.request.is_whole_fleet and not (self.has_failed or self.ignored)
        return covers_fleet and self.fleet.needs_no_watch


@dataclass(slots=True)
class _VolumeSelection:
    volumes: list[Volume] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    unsuited: dict[str, str] = field(default_factory=dict)
    flips: dict[str, Flip] = field(default_factory=dict)


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
    now_s = context.services.clock()
    collector = context.services.build_collector(now_s)
    selection = _select_volumes(context, request, collector)
    _check_cost(len(selection.volumes), request)
    period_s = choose_period_s(len(selection.volumes), request.days)
    end_s = int(now_s - _METRIC_LAG_S) // period_s * period_s
    start_s = end_s - request.days * _DAY_S
    prices = _read_prices(context)
    instances = _instance_limits(context, selection.volumes, collector.failures)
    histories = _HistoryLoader(context=context, percentile=request.percentile, period_s=period_s)
    histories.read(selection.volumes, start_s, end_s)
    collector.failures += histories.messages
    unavailable = context.services.unavailable_types(selection.volumes, now_s)
    advice = [
        advise(
            AdviceInput(
                volume=volume,
                usage=histories.usages[volume.volume_id],
                prices=prices.table,
                headroom_pct=context.services.policy.flip.headroom_pct,
                instance=instances.get(volume.instance_id or ""),
                flipped_from=_original_of(selection.flips.get(volume.volume_id)),
                unavailable=unavailable[volume.volume_id],
                **_critical_settings(context, volume),
            )
        )
        for volume in selection.volumes
        if volume.volume_id in histories.usages
    ]
    return AdviceReport(
        request=request,
        region=context.services.location.region,
        context_options=_context_options(context),
        ledger=context.ledger_location,
        now_s=now_s,
        start_s=start_s,
        end_s=end_s,
        period_s=period_s,
        advice=sorted(advice, key=lambda item: item.urgency),
        fleet=summarise(advice),
        prices=prices,
        unsuited=selection.unsuited,
        ignored=selection.ignored,
        missing=selection.missing,
        unread=histories.unread,
        failures=collector.failures,
        metrics_requested=context.services.calls.metrics_requested,
        api_calls=context.services.calls.calls,
    )


def _select_volumes(
    context: CommandContext, request: AdviceRequest, collector: Collector
) -> _VolumeSelection:
    """The requested volumes. A volume that is named is included, whatever its tags say."""
    selection = _VolumeSelection()
    flips = {
        volume_id: state.flip
        for volume_id, state in context.services.ledger.states().items()
        if state.flip is not None
    }
    if request.is_whole_fleet:
        volumes, _ = collector.fleet()
        flipped_ids = flips.keys() - {volume.volume_id for volume in volumes}
        volumes += collector.volumes_by_id(flipped_ids)[0] if flipped_ids else []
    else:
        volumes, selection.missing = collector.volumes_by_id(request.volume_ids)
    for volume in volumes:
        settings = read_tags(volume.tags, context.services.policy.mode)
        if settings.is_ignored and request.is_whole_fleet:
            selection.ignored.append(volume.volume_id)
        elif not is_advisable(volume):
            selection.unsuited[volume.volume_id] = f"{volume.volume_type} is not a type there is advice for"
        else:
            selection.volumes.append(volume)
    selection.flips = flips
    return selection


def _context_options(context: CommandContext) -> list[str]:
    options = {
        "--region": context.services.location.region,
        "--profile": context.options.profile,
        "--ledger": context.options.ledger,
    }
    return [part for name, value in options.items() if value for part in (name, value)]


def _check_cost(volumes: int, request: AdviceRequest) -> None:
    usd = volumes * METRICS_PER_VOLUME * USD_PER_METRIC
    if usd > MAX_USD and not request.assumes_yes:
        raise SettingsError(
            f"reading the history of {volumes:,} volumes costs {format_usd(usd)} (CloudWatch bills"
            f" {METRICS_PER_VOLUME} metrics for each), more than {format_usd(MAX_USD)}: add --yes to"
            f" read it, or"
            " name some of the volumes; fewer --days cost the same"
        )


def _read_prices(context: CommandContext) -> PricesResult:
    session = open_aws_session(replace(context.options, region=ENDPOINT_REGION))
    client = build_client(session, "pricing", context.services.calls)
    return read_prices(client, context.services.location.region)


def _instance_limits(
    context: CommandContext, volumes: Sequence[Volume], failures: list[str]
) -> Mapping[str, InstanceLimits]:
    """What each instance allows its volumes; what is not known limits nothing, and is said."""
    ec2 = context.services.ec2
    instances = ec2.instance_states(sorted({volume.instance_id for volume in volumes if volume.instance_id}))
    ebs = ec2.ebs_limits(sorted(set(instances.types.values())))
    failures += dict.fromkeys(str(failure) for failure in (*instances.unread.values(), *ebs.unread.values()))
    return {
        instance_id: ebs.limits[instance_type]
        for instance_id, instance_type in instances.types.items()
        if instance_type in ebs.limits
    }


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


@dataclass(slots=True, kw_only=True)
class _HistoryLoader:
    """The histories read and summed up at once: all datapoints of a fleet are never held."""

    context: CommandContext
    percentile: float
    period_s: int
    usages: dict[str, Usage | None] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def read(self, volumes: Sequence[Volume], start_s: int, end_s: int) -> None:
        by_id = {volume.volume_id: volume for volume in volumes}
        client = build_client(self.context.session, "cloudwatch", self.context.services.calls)
        reader = HistoryReader(client, period_s=self.period_s, workers=WORKERS)
        for batch in reader.read(list(by_id), start_s, end_s):
            for volume_id, history in batch.histories.items():
                usage = summarise_usage(by_id[volume_id], history, percentile=self.percentile)
                self.usages[volume_id] = usage
            self.unread |= {volume_id: str(failure) for volume_id, failure in batch.unread.items()}
            messages = (f"cloudwatch:GetMetricData says: {message}" for message in batch.messages)
            self.messages += [text for text in messages if text not in self.messages]
            self.context.progress.report(len(self.usages) + len(self.unread), len(by_id))
