"""What is read of a file system in trouble: its load of a day, and the throughput mode that serves it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.assessment.assess_resource import METRIC_LATENESS_S
from burstwatch.core.assessment.drain_cause import DrainMetrics
from burstwatch.core.buckets.bucket import BucketKind
from burstwatch.core.buckets.series import Series
from burstwatch.core.buckets.units import format_rate
from burstwatch.core.durations import DAY_S
from burstwatch.core.ebs.instance_bottleneck import EMPTY_PCT
from burstwatch.core.efs.efs_bucket import EFS_BYTES, efs_bucket, limit_when_empty_per_s
from burstwatch.core.efs.efs_text import describe_efs_outlook, describe_metered_load
from burstwatch.core.efs.file_system import FileSystem, ThroughputMode
from burstwatch.core.efs.mode_recommendation import EfsLoad, ModeRecommendation, recommend_mode
from burstwatch.core.flips.recommendation import Recommendation
from burstwatch.core.location import AwsLocation
from burstwatch.core.metric_spec import MetricSpec
from burstwatch.core.policy.policy import Policy
from burstwatch.core.text import format_duration, rounded_or_none
from burstwatch.core.watch.witness import lead_sentences

_PERIOD_S: Final = 300
EFS_DIMENSION: Final = EFS_BYTES.dimension
EFS_SPAN_S: Final = DAY_S + 3 * _PERIOD_S
"""Yesterday's load: a day before the newest datapoint."""
EFS_METRICS: Final = {
    "metered": MetricSpec("MeteredIOBytes", "Sum", _PERIOD_S),
    "read": MetricSpec("DataReadIOBytes", "Sum", _PERIOD_S),
    "written": MetricSpec("DataWriteIOBytes", "Sum", _PERIOD_S),
    "credits": MetricSpec(EFS_BYTES.metric, "Minimum", _PERIOD_S),
}
_WHOLE_SHARE: Final = 0.9
"""A judgement: from this share of a day on, the load is that of a day."""
_NOTICEABLE: Final = 1.1
"""A judgement: a price that is higher by less than this is the same."""
_HELD_BACK_SHARE: Final = 0.9
"""A judgement: below this share of what is left without credits, its load is not held back by that."""
_RECENT_S: Final = 1_800
"""The load of the last half hour is what drains the bucket now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EfsEvidence:
    """What was read of a file system by five minutes; what could not be read is not in ``series``."""

    file_system: FileSystem
    now_s: float
    series: Mapping[str, Series] = field(default_factory=dict)

    @property
    def load(self) -> EfsLoad | None:
        """The load of the last day, as far as CloudWatch has it; None if it was not read.

        A time without datapoints is not counted: what was served then is not known.
        """
        if not {"metered", "read", "written"} <= self.series.keys():
            return None
        metered, throttled = self.series["metered"], self._throttled_starts()
        with_credits = (sample.value for sample in metered if sample.start_at_s not in throttled)
        return EfsLoad(
            read_bytes=sum(self.series["read"].values),
            written_bytes=sum(self.series["written"].values),
            peak_metered_per_s=max(metered.values, default=0.0) / _PERIOD_S,
            duration_s=_PERIOD_S * max(1, len(metered)),
            throttled_s=len(throttled) * _PERIOD_S,
            peak_with_credits_per_s=max(with_credits, default=0.0) / _PERIOD_S,
        )

    @property
    def load_span(self) -> str:
        """``a day``, or the time that CloudWatch has of it."""
        duration_s = self.load.duration_s if self.load else 0
        if duration_s >= _WHOLE_SHARE * DAY_S:
            return "a day"
        return f"the {format_duration(duration_s)} that CloudWatch has"

    def mode_recommendation(self) -> ModeRecommendation | None:
        """The mode that serves the load; None if the load was not read."""
        load = self.load
        return recommend_mode(self.file_system, load) if load is not None else None

    def lasting_recommendation(self) -> ModeRecommendation | None:
        """The mode if the busiest five minutes last; None if a day says as much.

        A load that has begun a few minutes or hours ago is hardly seen in a mean. It may still empty the
        bucket, and the mode that is cheapest for a day of little load may be the most expensive for it.
        """
        by_day, busiest = self.mode_recommendation(), self._busiest_load()
        if by_day is None or busiest is None:
            return None
        lasting = recommend_mode(self.file_system, busiest)
        is_same = (
            str(lasting.chosen) == str(by_day.chosen)
            and lasting.chosen.usd_per_month <= by_day.chosen.usd_per_month * _NOTICEABLE
        )
        return None if is_same or lasting.command is None else lasting

    def recommended_change(self) -> ModeRecommendation | None:
        """What serves the load of a day, or the present load if it lasts; None if the load was not read.

        The present load counts if its day needs no change, or elastic mode, which has no price ceiling.
        """
        by_day, lasting = self.mode_recommendation(), self.lasting_recommendation()
        if by_day is None or lasting is None:
            return by_day
        is_lasting_chosen = by_day.command is None or by_day.chosen.mode == ThroughputMode.ELASTIC
        return lasting if is_lasting_chosen else by_day

    def day_sentence(self, by_day: ModeRecommendation, change: ModeRecommendation) -> str:
        """What the load of a day needs, beside the change that is recommended."""
        span = f"By its load of {self.load_span}"
        if by_day.command or change == by_day:
            return f"{span}: {by_day.reason}"
        return f"{span}, {by_day.chosen} mode is enough: {by_day.chosen.reason}"

    def lasting_sentence(self) -> str | None:
        """The mode if the busiest five minutes last, and the price of elastic then; None if a day says so."""
        lasting = self.lasting_recommendation()
        if lasting is None:
            return None
        elastic_prices = [
            f"; elastic would cost {option.price} a month"
            for option in lasting.options
            if option.mode == ThroughputMode.ELASTIC and option.serves_load and option != lasting.chosen
        ]
        return f"If the load of its busiest five minutes lasts: {lasting.reason}{''.join(elastic_prices)}"

    def load_of(self, _kind: BucketKind) -> None:
        """AWS documents the capacity: no load is needed to find it."""
        return

    def drain_metrics(self, _kind: BucketKind) -> DrainMetrics | None:
        """Credits are bytes, so operations do not explain a drain: ``witness`` has the bytes."""
        return None

    def advise(self, _assessment: Assessment, location: AwsLocation) -> Recommendation:
        """The cheapest throughput mode that serves the load, beside the others."""
        by_day, change = self.mode_recommendation(), self.recommended_change()
        if by_day is None or change is None:
            return Recommendation(action="look at MeteredIOBytes in CloudWatch: its load could not be read")
        options = ", ".join(f"{option} {option.price}" for option in by_day.options)
        prices = f"By its load of {self.load_span}, a month costs: {options}"
        load = self.day_sentence(by_day, change)
        if_it_lasts = self.lasting_sentence()
        cautions = tuple(caution.rstrip(".") for caution in change.cautions)
        return Recommendation(
            action=f"{change.command} --region {location.region}" if change.command else change.reason,
            reasons=(
                *([prices] if change == by_day else []),
                *cautions,
                f"{load}. {if_it_lasts}" if if_it_lasts else load,
            ),
            caveat=change.blocked,
            cautions=cautions,
        )

    def witness(self, assessment: Assessment, *, wanted_lead: timedelta, policy: Policy) -> dict[str, Any]:
        """What the bucket will do in people's units, and the rate and kind of I/O that drain it."""
        file_system, forecast = self.file_system, assessment.forecast
        lead = policy.cadence.act_lead
        rates = {name: self._recent_rate(name) for name in ("metered", "read", "written")}
        outlook = None
        if forecast is not None and forecast.soonest_empty_s is not None:
            outlook = describe_efs_outlook(file_system.standard_bytes, forecast)
        return {
            "witness": [*self.recent_load_sentences(), *lead_sentences(lead, wanted_lead)],
            "outlook": outlook,
            "limit_when_empty": format_rate(limit_when_empty_per_s(file_system.standard_bytes)),
            **{f"{name}_per_s": rounded_or_none(rate) for name, rate in rates.items()},
            "capacity": round(assessment.bucket.capacity),
            "act_lead_s": round(lead.total_seconds()),
        }

    def recent_load_sentences(self) -> list[str]:
        """The rate and the kind of I/O that drain the bucket now; nothing if they were not read."""
        read_per_s, written_per_s = self._recent_rate("read"), self._recent_rate("written")
        if read_per_s is None or written_per_s is None:
            return []
        return [f"In the last half hour: {describe_metered_load(read_per_s, written_per_s)}"]

    def _busiest_load(self) -> EfsLoad | None:
        """The load of the busiest five minutes of the last half hour; None if it was not read.

        If it was held back in that time, more is wanted: as much as its burst, for all that is known.
        """
        read, written, metered = (self._recent(name) for name in ("read", "written", "metered"))
        if not metered:
            return None
        is_throttled = not self._throttled_starts().isdisjoint(metered.starts_at_s)
        start_s = max(metered, key=lambda sample: sample.value).start_at_s
        five_minutes = [sum(s.value for s in series if s.start_at_s == start_s) for series in (read, written)]
        return EfsLoad(
            read_bytes=five_minutes[0],
            written_bytes=five_minutes[1],
            peak_metered_per_s=max(metered.values) / _PERIOD_S,
            duration_s=_PERIOD_S,
            throttled_s=_PERIOD_S if is_throttled else 0,
        )

    def _throttled_starts(self) -> set[int]:
        """The five minutes in which its credits counted as exhausted, and it was served what is left then.

        Credits that are earned come and go while it is held back, so its lowest balance may be above 0. A
        small file system stays almost empty for days after its load has ended.
        """
        stored = self.file_system.standard_bytes
        exhausted, limit_per_s = efs_bucket(stored).credits_in(EMPTY_PCT), limit_when_empty_per_s(stored)
        held_back_bytes = _HELD_BACK_SHARE * limit_per_s * _PERIOD_S
        held_back = {s.start_at_s for s in self._all("metered") if s.value >= held_back_bytes}
        return {s.start_at_s for s in self._all("credits") if s.value <= exhausted} & held_back

    def _all(self, name: str) -> Series:
        return self.series.get(name, Series())

    def _recent_rate(self, name: str) -> float | None:
        """Bytes per second in the last half hour, of the minutes that CloudWatch shows; None without any."""
        recent = self._recent(name)
        return sum(recent.values) / (len(recent) * _PERIOD_S) if recent else None

    def _recent(self, name: str) -> Series:
        """The newest half hour of which no minute may be missing any more."""
        end_s = int(self.now_s - METRIC_LATENESS_S) // _PERIOD_S * _PERIOD_S
        return self._all(name).closed_by(end_s).since(end_s - _RECENT_S)
