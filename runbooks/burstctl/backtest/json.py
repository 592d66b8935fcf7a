"""A backtest as ``--json`` prints it, in the schema ``burstwatch.backtest/v1``."""

from typing import TYPE_CHECKING, Final

from burstctl.backtest.assumptions import list_assumptions
from burstctl.backtest.backtest import Backtest
from burstctl.backtest.bucket_replay import BucketTally
from burstctl.backtest.recorded_volume import SimulatedModification
from burstctl.backtest.scoring import Depletion, SentAlert, Stalls, Tally, replayed_days
from burstwatch.core.ledger.flip_state import Direction, configuration_to_document
from burstwatch.core.policy.policy import Policy
from burstwatch.core.policy.windows import expected_flip_duration
from burstwatch.core.text import format_instant, instant_or_none

if TYPE_CHECKING:
    from documents.backtest import (
        BacktestDocument,
        DepletionDocument,
        ReplayedBucketDocument,
        ReplayedVolumeDocument,
        SentAlertDocument,
        SimulatedModificationDocument,
        StalledMinutesDocument,
    )

SCHEMA: Final = "burstwatch.backtest/v1"


def to_document(backtest: Backtest, generated_at_s: float) -> "BacktestDocument":
    """As JSON; instants in ISO 8601, absent values null, keys never disappear."""
    request, source, totals = backtest.request, backtest.source, backtest.totals
    policy: Policy = backtest.config.policy
    return {
        "schema": SCHEMA,
        "generated_at": format_instant(generated_at_s),
        "region": request.location.region,
        "policy": request.policy_location,
        "mode_highest": policy.mode.highest,
        "as_tagged": request.as_tagged,
        "target": policy.flip.target,
        "history": {
            "start": format_instant(source.start_s),
            "end": format_instant(source.end_s),
            "days": round(replayed_days(backtest.config), 4),
            "period_s": source.period_s,
            "from": "cloudwatch" if source.selection.metrics_requested else "csv",
        },
        "metric_lag_s": backtest.config.lag_s,
        "assumptions": list_assumptions(backtest),
        "totals": {
            "volumes": totals.volumes,
            "alerts": sum(totals.alerts.values()),
            "alerts_by_kind": dict(totals.alerts),
            "reminders": totals.reminders,
            "flips": totals.flips,
            "returns": totals.returns,
            "away_at_end": totals.on_target_at_end,
            "refused": dict(totals.refused),
            "stalled_minutes": _stalls_document(totals.stalls),
            "depletions": totals.depletions,
            "depletions_announced": totals.announced,
            "depletions_prevented": totals.prevented,
            "least_lead_s": totals.least_lead_s,
            "usd_over_gp2": round(totals.usd_over_gp2, 6),
            "usd_watching": round(totals.usd_watching, 6),
        },
        "volumes": [_volume_document(item, policy) for item in backtest.tallies],
        "window_alerts": [_alert_document(item) for item in backtest.window_alerts],
        "buckets": [_bucket_document(item) for item in backtest.bucket_tallies],
        "unseen": list(source.unseen),
        **source.selection.to_document(),
    }


def _volume_document(tally: Tally, policy: Policy) -> "ReplayedVolumeDocument":
    volume = tally.volume
    return {
        "volume_id": volume.volume_id,
        "name": volume.name,
        "size_gib": volume.size_gib,
        "recorded_s": tally.known_s,
        "cut_because": tally.cut_because,
        "expected_modification_s": int(expected_flip_duration(volume.size_gib, policy.lead).total_seconds()),
        "alerts": [_alert_document(item) for item in tally.alerts],
        "alerts_by_kind": dict(tally.by_kind),
        "flips": tally.flips,
        "returns": tally.returns,
        "away_at_end": tally.ends_on_target,
        "modifications": [_modification_document(item) for item in tally.modifications],
        "refused": dict(tally.refused),
        "stalled_minutes": _stalls_document(tally.stalls),
        "depletions": [_depletion_document(item) for item in tally.depletions],
        "least_lead_s": tally.least_lead_s,
        "usd_over_gp2": round(tally.usd_over_gp2, 6),
        "usd_watching": round(tally.usd_watching, 6),
    }


def _bucket_document(tally: BucketTally) -> "ReplayedBucketDocument":
    resource = tally.due.resource
    return {
        "resource_id": resource.resource_id,
        "resource_type": resource.resource_type,
        "name": resource.name,
        "bucket": tally.due.kind.name,
        "recorded_s": tally.known_s,
        "alerts": [_alert_document(item) for item in tally.alerts],
        "alerts_by_kind": dict(tally.by_kind),
        "depletions": [_depletion_document(item) for item in tally.depletions],
        "least_lead_s": tally.least_lead_s,
        "usd_watching": round(tally.usd_watching, 6),
    }


def _stalls_document(stalls: Stalls) -> "StalledMinutesDocument":
    return {
        "seen": stalls.recorded,
        "avoided": stalls.avoided,
        "left": stalls.remaining,
        "eased": stalls.eased,
        "added": stalls.added,
    }


def _alert_document(alert: SentAlert) -> "SentAlertDocument":
    return {
        "at": format_instant(alert.at_s),
        "kind": alert.kind,
        "level": alert.level,
        "reminder": alert.is_reminder,
    }


def _modification_document(modification: SimulatedModification) -> "SimulatedModificationDocument":
    return {
        "direction": Direction.FLIP if modification.is_flip else Direction.FLIP_BACK,
        "target": configuration_to_document(modification.target),
        "started_at": format_instant(modification.started_at_s),
        "completed_at": format_instant(modification.completed_at_s),
    }


def _depletion_document(depletion: Depletion) -> "DepletionDocument":
    return {
        "dry_at": format_instant(depletion.empty_at_s),
        "alerted_at": instant_or_none(depletion.alerted_at_s),
        "lead_s": depletion.lead_s,
        "prevented": depletion.is_prevented,
    }
