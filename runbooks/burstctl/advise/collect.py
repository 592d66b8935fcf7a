"""Advice on volumes: which they are, their history, the prices of their region, and what it comes to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from burstctl.advise.rightsizing import Advice, Case, FleetAdvice, advise, is_advisable, sum_advice
from burstctl.context.context import Desk
from burstctl.context.metric_resolution import finest_s
from burstctl.context.stacks import session_of
from burstwatch.adapters.aws.metric_history import METRICS_PER_VOLUME, HistoryReader
from burstwatch.adapters.aws.price_list import ENDPOINT_REGION, PricesRead, read_prices
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.sizing import InstanceLimits
from burstwatch.core.ebs.usage import Usage, sum_up
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ledger.flip_state import Flip
from burstwatch.core.policy.volume_tags import read_tags
from burstwatch.core.watch.api_cost import USD_PER_METRIC
from burstwatch.engine.collector import Gathering
from burstwatch.wiring.bootstrap import WORKERS, build_client
from burstwatch.wiring.settings import SettingsError

MOST_USD: Final = 5.0
"""Reads that cost more than this are not made without being told so."""

_DAY_S: Final = 24 * 3600
_LAG_S: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an operator wants advice on; no ids are all gp2 volumes of the region, and those flipped."""

    volume_ids: Sequence[str] = ()
    days: int = 14
    percentile: float = 99.9
    assumes_yes: bool = False

    @property
    def is_for_all(self) -> bool:
        return not self.volume_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Advised:
    """The advice, most danger and most dollars first, and all that nothing could be said about.

    ``unsuited`` are volumes of types that there is no advice for, ``ignored`` those tagged so, ``unread``
    those whose history could not be read; ``start_s`` to ``end_s`` is what was asked for. ``again`` are the
    options that lead another command to the same place.
    """

    request: Request
    region: str
    again: Sequence[str]
    ledger: str
    now_s: float
    start_s: int
    end_s: int
    period_s: int
    advice: Sequence[Advice]
    fleet: FleetAdvice
    prices: PricesRead
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
    def usd_read(self) -> float:
        """What the reads cost."""
        return self.metrics_requested * USD_PER_METRIC

    @property
    def ends_the_watch(self) -> bool:
        """Whether every volume of the region was judged, and none would live on credits any more."""
        is_whole = self.request.is_for_all and not (self.has_failed or self.ignored)
        return is_whole and self.fleet.nothing_left_to_watch


@dataclass(slots=True)
class _Chosen:
    volumes: list[Volume] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    unsuited: dict[str, str] = field(default_factory=dict)
    flips: dict[str, Flip] = field(default_factory=dict)


def give_advice(desk: Desk, request: Request) -> Advised:
    """Choose the volumes, read what they did and what they cost, and judge each.

    Raises:
        SettingsError: the reads would cost more than ``MOST_USD``, and nobody agreed to that.
    """
    desk.progress.begin(f"reading {request.days} days")
    try:
        return _give_advice(desk, request)
    finally:
        desk.progress.end()


def _give_advice(desk: Desk, request: Request) -> Advised:
    now_s = desk.shell.clock()
    gathering = desk.shell.gathering(now_s)
    chosen = _choose(desk, request, gathering)
    _check_cost(len(chosen.volumes), request)
    period_s = finest_s(len(chosen.volumes), request.days)
    end_s = int(now_s - _LAG_S) // period_s * period_s
    start_s = end_s - request.days * _DAY_S
    prices = _read_prices(desk)
    instances = _instance_limits(desk, chosen.volumes, gathering.failures)
    histories = _Histories(desk=desk, percentile=request.percentile, period_s=period_s)
    histories.read(chosen.volumes, start_s, end_s)
    gathering.failures += histories.messages
    unavailable = desk.shell.unavailable_types(chosen.volumes, now_s)
    advice = [
        advise(
            Case(
                volume=volume,
                usage=histories.usages[volume.volume_id],
                prices=prices.table,
                headroom_pct=desk.shell.policy.flip.headroom_pct,
                instance=instances.get(volume.instance_id or ""),
                flipped_from=_original(chosen.flips.get(volume.volume_id)),
                unavailable=unavailable[volume.volume_id],
                **_critical(desk, volume),
            )
        )
        for volume in chosen.volumes
        if volume.volume_id in histories.usages
    ]
    return Advised(
        request=request,
        region=desk.shell.place.region,
        again=_options_again(desk),
        ledger=desk.ledger,
        now_s=now_s,
        start_s=start_s,
        end_s=end_s,
        period_s=period_s,
        advice=sorted(advice, key=lambda each: each.urgency),
        fleet=sum_advice(advice),
        prices=prices,
        unsuited=chosen.unsuited,
        ignored=chosen.ignored,
        missing=chosen.missing,
        unread=histories.unread,
        failures=gathering.failures,
        metrics_requested=desk.shell.calls.metrics_requested,
        api_calls=desk.shell.calls.calls,
    )


def _choose(desk: Desk, request: Request, gathering: Gathering) -> _Chosen:
    """The volumes meant; of all those named, whatever they are tagged, because somebody asks for them."""
    chosen = _Chosen()
    flips = {i: state.flip for i, state in desk.shell.ledger.states().items() if state.flip is not None}
    if request.is_for_all:
        volumes, _ = gathering.fleet()
        away = flips.keys() - {volume.volume_id for volume in volumes}
        volumes += gathering.by_id(away)[0] if away else []
    else:
        volumes, chosen.missing = gathering.by_id(request.volume_ids)
    for volume in volumes:
        wishes = read_tags(volume.tags, desk.shell.policy.mode)
        if wishes.is_ignored and request.is_for_all:
            chosen.ignored.append(volume.volume_id)
        elif not is_advisable(volume):
            chosen.unsuited[volume.volume_id] = f"{volume.volume_type} is not a type there is advice for"
        else:
            chosen.volumes.append(volume)
    chosen.flips = flips
    return chosen


def _options_again(desk: Desk) -> list[str]:
    given = {
        "--region": desk.shell.place.region,
        "--profile": desk.options.profile,
        "--ledger": desk.options.ledger,
    }
    return [part for name, value in given.items() if value for part in (name, value)]


def _check_cost(volumes: int, request: Request) -> None:
    usd = volumes * METRICS_PER_VOLUME * USD_PER_METRIC
    if usd > MOST_USD and not request.assumes_yes:
        raise SettingsError(
            f"reading the history of {volumes:,} volumes costs ${usd:,.2f} (CloudWatch bills"
            f" {METRICS_PER_VOLUME} metrics for each), more than ${MOST_USD:,.2f}: add --yes to read it, or"
            " name some of the volumes; fewer --days cost the same"
        )


def _read_prices(desk: Desk) -> PricesRead:
    session = session_of(replace(desk.options, region=ENDPOINT_REGION))
    client = build_client(session, "pricing", desk.shell.calls)
    return read_prices(client, desk.shell.place.region)


def _instance_limits(
    desk: Desk, volumes: Sequence[Volume], failures: list[str]
) -> Mapping[str, InstanceLimits]:
    """What each instance allows its volumes; what is not known limits nothing, and is said."""
    ec2 = desk.shell.ec2
    found = ec2.instance_states(sorted({v.instance_id for v in volumes if v.instance_id}))
    ebs = ec2.ebs_limits(sorted(set(found.types.values())))
    failures += dict.fromkeys(str(failure) for failure in (*found.unread.values(), *ebs.unread.values()))
    return {i: ebs.limits[kind] for i, kind in found.types.items() if kind in ebs.limits}


def _original(flip: Flip | None) -> Configuration | None:
    return flip.original if flip is not None else None


def _critical(desk: Desk, volume: Volume) -> dict[str, Any]:
    """Whether it is critical, and its type then: the tag's, or gp3, as an alert proposes.

    One that is provisioned for durability already is not moved to gp3.
    """
    wishes = read_tags(volume.tags, desk.shell.policy.mode)
    is_provisioned = volume.volume_type in (VolumeType.IO1, VolumeType.IO2)
    kind = wishes.target.volume_type or (VolumeType.IO2 if is_provisioned else VolumeType.GP3)
    return {"is_critical": wishes.is_critical, "critical_type": kind}


@dataclass(slots=True, kw_only=True)
class _Histories:
    """The histories read and summed up at once: all datapoints of a fleet are never held."""

    desk: Desk
    percentile: float
    period_s: int
    usages: dict[str, Usage | None] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def read(self, volumes: Sequence[Volume], start_s: int, end_s: int) -> None:
        by_id = {volume.volume_id: volume for volume in volumes}
        client = build_client(self.desk.session, "cloudwatch", self.desk.shell.calls)
        reader = HistoryReader(client, period_s=self.period_s, workers=WORKERS)
        for found in reader.read(list(by_id), start_s, end_s):
            for volume_id, history in found.histories.items():
                usage = sum_up(by_id[volume_id], history, percentile=self.percentile)
                self.usages[volume_id] = usage
            self.unread |= {volume_id: str(failure) for volume_id, failure in found.unread.items()}
            said = (f"cloudwatch:GetMetricData says: {message}" for message in found.messages)
            self.messages += [each for each in said if each not in self.messages]
            self.desk.progress.report(len(self.usages) + len(self.unread), len(by_id))
