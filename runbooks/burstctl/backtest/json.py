"""A backtest as ``--json`` prints it, in the schema ``burstwatch.backtest/v1``."""

from typing import Any, Final

from burstctl.backtest.assumptions import assumptions
from burstctl.backtest.backtest import Backtest
from burstctl.backtest.recorded_volume import Move
from burstctl.backtest.scoring import Depletion, Stalls, Tally, Told, days_of
from burstctl.render.plan_json import instant_or_none
from burstwatch.core.ledger.flip_state import configuration_document
from burstwatch.core.policy.policy import Policy
from burstwatch.core.policy.windows import expected_flip
from burstwatch.core.text import format_instant

SCHEMA: Final = "burstwatch.backtest/v1"


def to_document(found: Backtest, generated_at_s: float) -> dict[str, Any]:
    """As JSON; instants in ISO 8601, absent values null, keys never disappear."""
    question, recorded, total = found.question, found.recorded, found.totals
    policy: Policy = found.setting.policy
    return {
        "schema": SCHEMA,
        "generated_at": format_instant(generated_at_s),
        "region": question.place.region,
        "policy": question.policy_place,
        "mode_highest": str(policy.mode.highest),
        "as_tagged": question.as_tagged,
        "target": str(policy.flip.target),
        "history": {
            "start": format_instant(recorded.start_s),
            "end": format_instant(recorded.end_s),
            "days": round(days_of(found.setting), 4),
            "period_s": recorded.period_s,
            "from": "cloudwatch" if recorded.metrics_requested else "csv",
        },
        "metric_lag_s": found.setting.lag_s,
        "assumptions": assumptions(found),
        "totals": {
            "volumes": total.volumes,
            "alerts": sum(total.alerts.values()),
            "alerts_by_kind": dict(total.alerts),
            "reminders": total.reminders,
            "flips": total.flips,
            "returns": total.returns,
            "away_at_end": total.away,
            "refused": dict(total.refused),
            "stalled_minutes": _stalls(total.stalls),
            "depletions": total.depletions,
            "depletions_announced": total.announced,
            "depletions_prevented": total.prevented,
            "least_lead_s": total.least_lead_s,
            "usd_over_gp2": round(total.usd_over_gp2, 6),
            "usd_watching": round(total.usd_watching, 6),
        },
        "volumes": [_volume(each, policy) for each in found.tallies],
        "window_alerts": [_told(each) for each in found.windows],
        "unsuited": dict(recorded.unsuited),
        "ignored": list(recorded.ignored),
        "unseen": list(recorded.unseen),
        "missing": list(recorded.missing),
        "unread": dict(recorded.unread),
        "failures": list(recorded.failures),
        "cost": {"metrics_requested": recorded.metrics_requested, "usd": round(recorded.usd_read, 6)},
        "api_calls": dict(recorded.api_calls),
    }


def _volume(one: Tally, policy: Policy) -> dict[str, Any]:
    volume = one.volume
    return {
        "volume_id": volume.volume_id,
        "name": volume.name,
        "size_gib": volume.size_gib,
        "recorded_s": one.known_s,
        "cut_because": one.cut_because,
        "expected_modification_s": int(expected_flip(volume.size_gib, policy.lead).total_seconds()),
        "alerts": [_told(each) for each in one.alerts],
        "alerts_by_kind": dict(one.by_kind),
        "flips": one.flips,
        "returns": one.returns,
        "away_at_end": one.is_away,
        "modifications": [_move(each) for each in one.moves],
        "refused": dict(one.refused),
        "stalled_minutes": _stalls(one.stalls),
        "depletions": [_depletion(each) for each in one.depletions],
        "least_lead_s": one.least_lead_s,
        "usd_over_gp2": round(one.usd_over_gp2, 6),
        "usd_watching": round(one.usd_watching, 6),
    }


def _stalls(stalls: Stalls) -> dict[str, int]:
    return {
        "seen": stalls.seen,
        "avoided": stalls.avoided,
        "left": stalls.left,
        "eased": stalls.eased,
        "added": stalls.added,
    }


def _told(told: Told) -> dict[str, Any]:
    return {
        "at": format_instant(told.at_s),
        "kind": str(told.kind),
        "level": told.level,
        "reminder": told.is_reminder,
    }


def _move(move: Move) -> dict[str, Any]:
    return {
        "direction": "out" if move.is_out else "back",
        "target": configuration_document(move.target),
        "started_at": format_instant(move.started_s),
        "completed_at": format_instant(move.completed_s),
    }


def _depletion(depletion: Depletion) -> dict[str, Any]:
    return {
        "dry_at": format_instant(depletion.dry_at_s),
        "alerted_at": instant_or_none(depletion.alerted_at_s),
        "lead_s": depletion.lead_s,
        "prevented": depletion.prevented,
    }
