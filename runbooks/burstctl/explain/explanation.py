"""A decision about one volume with every number behind it, in words and as a document."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from burstctl.cli.styled_text import styled
from burstctl.cli.text_layout import Topic, sanitise_aligned, text_columns, wrap_hanging
from burstctl.explain.bucket_topics import (
    BucketExplanation,
    describe_cause,
    describe_look,
    describe_next_levels,
    drain_documents,
    forecast_topics,
    rate_text,
)
from burstctl.render.flip_text import describe_flip, describe_quota, flip_document, quota_document
from burstctl.render.guard_override import refusing_guards, runbook_hints
from burstctl.render.pass_summary import describe_hold
from burstctl.render.plan_json import hold_document, plan_document
from burstctl.render.plan_text import describe_refusal
from burstctl.render.planned_flip import PlannedFlip
from burstctl.render.resource_rows import CHANGING_LABEL, STYLES, describe_depletion, level_label
from burstctl.render.terminal_channel import wrap_action
from burstctl.render.volume import UNREADABLE_STATE, describe_level
from burstctl.windows.status import PHASE_DESCRIPTIONS, describe_occurrence, occurrence_document
from burstwatch.core.alerts.alert import describe_forecast, format_forecast
from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.assessment.severity import Level, explain_level
from burstwatch.core.ebs.hdd_bucket import EBS_THROUGHPUT
from burstwatch.core.ebs.volume import BURST_IOPS, baseline_iops, highest_drain_per_s
from burstwatch.core.flips.flip_trigger import ActRule, choose_act_rule
from burstwatch.core.flips.outcome import Outcome, OutcomeStatus
from burstwatch.core.flips.refusal import AUTOMATION_ONLY, Refusal
from burstwatch.core.ledger.flip_state import Flip, FlipCause, Hold, ModificationUse
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.policy import Mode
from burstwatch.core.policy.windows import WindowState, describe_flip_duration
from burstwatch.core.tag_keys import MODE
from burstwatch.core.text import (
    format_instant,
    format_time,
    instant_or_none,
    rounded_or_none,
    sanitise,
)
from burstwatch.core.watch.advice import is_flippable
from burstwatch.core.watch.decision import Action, Decision
from burstwatch.core.watch.pass_report import describe_decision

if TYPE_CHECKING:
    from documents.explanation import (
        ExplainedVolumeDocument,
        NotExplainedDocument,
        SkippedDocument,
        VolumeWindowsDocument,
    )

SCHEMA: Final = "burstwatch.explanation/v1"
# layout: what fits on a screen; `burstctl history` shows every entry
MAX_ENTRIES: Final = 8
_MAX_CHARS: Final = 600
_LABEL_COLUMNS: Final = 10
_WATCHDOG_ACTIONS: Final = {
    Action.FLIP: "the watchdog flips it, if it may act and no guard refuses",
    Action.FLIP_BACK: "the watchdog flips it back, if it may act and no guard refuses",
    Action.HOLD: "none while it is on hold",
}
_MODE_DESCRIPTIONS: Final = {
    Mode.OBSERVE: "reports only, no alert",
    Mode.PROPOSE: "alerts with the command to run, modifies nothing",
    Mode.AUTO: "alerts, and may be flipped if the watchdog may act",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(BucketExplanation):
    """A decision made from one look, and what the ledger remembered before it.

    ``planned`` is a modification that the watchdog would make now: the flip, or the return of a flipped
    volume; None if neither makes sense. ``windows`` is None if the volume is in none. ``is_unread``: the
    ledger has a state that cannot be read.
    """

    state: ResourceState | None
    entries: Sequence[LedgerEntry]
    is_unread: bool = False
    holds: Sequence[Hold] = ()
    planned: PlannedFlip | None = None
    windows: WindowState | None = None
    window_names: Sequence[str] = ()

    @property
    def act_rule(self) -> ActRule | None:
        """The level at which a drain causes a flip; None if it does not matter, as for a critical volume."""
        recommendation, planned = self.decision.recommendation, self.planned
        if planned is None or not planned.is_flip or self.decision.volume_settings.is_critical:
            return None
        return choose_act_rule(
            recommendation.settled_target if recommendation else planned.plan.sizing, self.policy
        )

    @property
    def refusals_of_flip(self) -> list[Refusal]:
        """Why burstctl flip would refuse now; guards that stop only the watchdog do not count."""
        if self.planned is None or not self.planned.is_flip:
            return []
        return [refusal for refusal in self.planned.plan.refusals if refusal.guard not in AUTOMATION_ONLY]

    @property
    def recent_modifications(self) -> tuple[ModificationUse, ...]:
        """The modifications of the last 24 hours, as far as they are known."""
        if self.planned is not None:
            return self.planned.recent_modifications
        return self.state.modifications.within_day(self.now_s) if self.state else ()


def is_completion_unrecorded(decision: Decision, state: ResourceState | None) -> bool:
    """Whether AWS is done with a change that the ledger still has as under way: no pass has seen it yet."""
    return (
        state is not None and state.flip is not None and state.flip.is_under_way and not decision.is_changing
    )


def urgent_lines(explanation: Explanation) -> list[str]:
    """What is urgent, and the command that helps; nothing if nothing is, or if AWS is changing it already."""
    decision, assessment = explanation.decision, explanation.assessment
    forecast, recommendation = assessment.forecast, decision.recommendation
    if not decision.level.is_alerting or decision.flip is not None or forecast is None:
        return []
    state = format_forecast(describe_forecast(assessment, explanation.now_s))
    if forecast.is_refilling:
        state = describe_depletion(decision, explanation.now_s)
    elif decision.level is Level.EXHAUSTED:
        baseline = rate_text(assessment, assessment.bucket.refill_per_s)
        state = f"out of credits, throttled to its baseline of {baseline}"
    label = str(decision.level).upper()
    lines = wrap_hanging(f"{label}: {state}", text_columns())
    lines[0] = styled(label, STYLES[decision.level]) + lines[0].removeprefix(label)
    if recommendation is None or forecast.is_refilling:
        return lines
    if explanation.refusals_of_flip:
        return [*lines, *wrap_hanging(_describe_refused_flip(explanation), text_columns())]
    action = wrap_action(sanitise(recommendation.action, _MAX_CHARS), text_columns() - 2)
    if (actor := _who_acts(explanation)) is not None:
        lines += wrap_hanging(f"{actor[0].upper()}{actor[1:]}. To do it now:", text_columns())
    commands = (f"  {styled(line, 'bold')}" for line in action)
    return [*lines, *commands, *wrap_hanging(_duration(explanation), text_columns())]


def render_explanation(explanation: Explanation, *, verbose: bool) -> list[Topic]:
    """Topics with their sentences; hostile text is made inert. ``verbose`` adds how each was worked out."""
    assessment, forecast = explanation.assessment, explanation.assessment.forecast
    topics: list[Topic] = [("Level", _level(explanation)), ("Next step", _next_step(explanation))]
    if assessment.volume.is_gp2:
        topics.append(("Baseline", _baseline(assessment)))
    elif assessment.kind is EBS_THROUGHPUT:
        topics.append(("Baseline", _hdd_baseline(assessment)))
    topics += forecast_topics(explanation, verbose=verbose)
    if forecast is not None:
        topics += [
            ("Served", _current_load(assessment)),
            ("Next", describe_next_levels(explanation) if verbose else []),
        ]
    topics += [("Mode", _mode(explanation)), ("Look", describe_look(explanation) if verbose else [])]
    if explanation.decision.flip is not None:
        topics.append(("Flip", describe_flip(explanation.decision.flip, explanation.now_s)))
    topics += [
        ("Others", _external_change(explanation.state)),
        (
            "Guards",
            _guards(explanation.planned, explanation.decision.flip, explanation.policy.alerts.runbooks_url),
        ),
        ("Target", _target(explanation.planned) if verbose else []),
        ("Hold", [describe_hold(hold, explanation.now_s) for hold in explanation.holds]),
    ]
    quota = (
        [UNREADABLE_STATE]
        if explanation.is_unread
        else describe_quota(explanation.recent_modifications, explanation.now_s)
    )
    topics += [("Windows", _windows(explanation)), ("Quota", quota)]
    topics += [("Ledger", _ledger_state(explanation) if verbose or explanation.is_unread else [])]
    return [(topic, [sanitise_aligned(line) for line in lines]) for topic, lines in topics if lines]


def _external_change(state: ResourceState | None) -> list[str]:
    """Whether another person or tool changed what we flipped, and it has not been released since."""
    if state is None or state.modifications.contested_at_s is None:
        return []
    seen_at, command = (
        format_instant(state.modifications.contested_at_s),
        f"burstctl release {state.volume_id}",
    )
    return [
        f"someone else changed it after our flip, seen {seen_at}; it requires manual action until {command}"
    ]


def to_document(explanation: Explanation) -> "ExplainedVolumeDocument":
    """The explanation as ``--json`` prints it."""
    assessment, forecast = explanation.assessment, explanation.assessment.forecast
    return {
        "schema": SCHEMA,
        "generated_at": format_instant(explanation.now_s),
        "volume": describe_decision(
            explanation.decision, explanation.now_s, Outcome(status=OutcomeStatus.NONE)
        ),
        "instance": None,
        "file_system": None,
        "database": None,
        "previous_level": explanation.decision.previous_level,
        "because": explain_level(assessment, explanation.decision.level, explanation.bucket_policy),
        "worst_drain_per_s": round(assessment.bucket.highest_drain_per_s),
        "drains": drain_documents(assessment),
        "is_believed": forecast is not None and forecast.is_within_extrapolation,
        "consumed_read_iops": rounded_or_none(assessment.consumed_read_iops),
        "consumed_write_iops": rounded_or_none(assessment.consumed_write_iops),
        "next": describe_next_levels(explanation) if forecast else [],
        "look": {
            "interval_s": explanation.decision.poll_interval_s,
            "because": " ".join(describe_look(explanation)),
        },
        "flip": flip_document(explanation.decision.flip) if explanation.decision.flip else None,
        "contested_since": instant_or_none(
            explanation.state.modifications.contested_at_s if explanation.state else None
        ),
        "act_at": explanation.act_rule.to_document() if explanation.act_rule else None,
        "plan": plan_document(explanation.planned) if explanation.planned else None,
        "holds": [hold_document(hold) for hold in explanation.holds],
        "windows": _windows_document(explanation),
        "quota": quota_document(explanation.recent_modifications),
        "remembered": {
            "state": explanation.state.to_document(is_whole=True) if explanation.state else None,
            "entries": [entry.to_document() for entry in explanation.entries],
        },
    }


def _level(explanation: Explanation) -> list[str]:
    decision = explanation.decision
    unknown_reason = explanation.assessment.unknown_reason
    cause = describe_cause(explanation)
    previous = f"; last judged {decision.previous_level}" if explanation.state else ""
    if decision.is_changing and decision.flip is not None:
        since = format_time(decision.flip.requested_at_s, explanation.now_s)
        assessed = (
            f"by its balance it would be {decision.level}: {cause}" if unknown_reason is None else cause
        )
        return [
            f"{CHANGING_LABEL}: being modified to {decision.flip.requested_config} since {since} UTC",
            assessed,
        ]
    return [f"{level_label(decision)}: {cause}{previous}"]


def _who_acts(explanation: Explanation) -> str | None:
    """When the watchdog flips it, in mode auto; None if only people may."""
    decision, rule = explanation.decision, explanation.act_rule
    if decision.trigger is not None:
        return _WATCHDOG_ACTIONS[Action.FLIP] if decision.action is Action.FLIP else None
    has_target = decision.recommendation is not None and decision.recommendation.target is not None
    if decision.volume_settings.mode is not Mode.AUTO or rule is None or explanation.holds or not has_target:
        return None
    return f"the watchdog flips it at {rule.level}, if it may act and no guard refuses"


def _next_step(explanation: Explanation) -> list[str]:
    """Who should do what now."""
    steps = _steps(explanation)
    note = "AWS has completed the change; the next pass of the watchdog records it"
    return [*steps, note] if is_completion_unrecorded(explanation.decision, explanation.state) else steps


def _steps(explanation: Explanation) -> list[str]:
    decision, recommendation, forecast = (
        explanation.decision,
        explanation.decision.recommendation,
        explanation.assessment.forecast,
    )
    reason, mode = decision.reason, decision.volume_settings.mode
    if explanation.assessment.is_fault and decision.trigger is None and not decision.is_changing:
        return ["find out why there is no balance: burstctl doctor"]
    caveat = (
        [f"proposed: {recommendation.target}; {recommendation.caveat}"]
        if recommendation and recommendation.caveat
        else []
    )
    if decision.is_changing:
        return [f"wait until AWS is done: {reason}", _duration(explanation)]
    if decision.trigger is not None:
        actor = _WATCHDOG_ACTIONS[decision.action]
        return [f"{actor}: {reason}", *caveat]
    if recommendation is None or (
        forecast is not None and forecast.is_refilling and not decision.volume_settings.is_critical
    ):
        return [f"none: {reason}", *caveat]
    if explanation.refusals_of_flip:
        is_shown_above = decision.level.is_alerting and forecast is not None
        step = "no flip now, for the reason above" if is_shown_above else _describe_refused_flip(explanation)
        return [step, *caveat]
    justification = reason if f"mode {mode}" in reason else f"mode is {mode}; {reason}"
    actor = _who_acts(explanation) or f"you: {'flip it' if recommendation.target else recommendation.action}"
    step = f"{actor} ({justification})"
    is_shown_above = decision.level.is_alerting or recommendation.target is None
    return [
        step,
        *([] if is_shown_above else wrap_action(recommendation.action, text_columns() - _LABEL_COLUMNS)),
        *([] if is_flippable(decision.assessment.resource) else recommendation.reasons),
        *caveat,
    ]


def _describe_refused_flip(explanation: Explanation) -> str:
    """That a flip is refused now, and the reason, which says what to do instead."""
    reasons = "; ".join(refusal.reason for refusal in explanation.refusals_of_flip)
    return f"no flip now: {reasons}"


def _duration(explanation: Explanation) -> str:
    size_gib, empty_s = explanation.assessment.volume.size_gib, explanation.assessment.time_to_empty_s
    flip = explanation.decision.flip if explanation.decision.is_changing else None
    elapsed_s = explanation.now_s - flip.requested_at_s if flip is not None else 0.0
    return describe_flip_duration(
        size_gib, explanation.policy.lead, time_to_empty_s=empty_s, elapsed_s=elapsed_s
    )


def _baseline(assessment: Assessment) -> list[str]:
    size_gib = min(assessment.volume.size_gib, assessment.smaller_size_gib or assessment.volume.size_gib)
    note = " (the smaller size of its modification)" if size_gib < assessment.volume.size_gib else ""
    product = 3 * size_gib
    relation = f" = {product:,}, but at least" if product < assessment.baseline_iops else " ="
    earned = f"3 * {size_gib:,} GiB{note}{relation} {assessment.baseline_iops:,} IOPS"
    if not highest_drain_per_s(assessment.baseline_iops):
        return [f"{earned}, as much as the burst of {BURST_IOPS:,}: it never runs out"]
    return [f"{earned}; as many credits come back per second"]


def _hdd_baseline(assessment: Assessment) -> list[str]:
    bucket, volume = assessment.bucket, assessment.volume
    size = f"{volume.volume_type} of {volume.size_gib:,} GiB"
    baseline, burst = (rate_text(assessment, rate) for rate in (bucket.refill_per_s, bucket.burst_per_s))
    sentence = f"{baseline} for {size}, which bursts to {burst}; as many MiB come back per second"
    if not bucket.is_inferred:
        return [sentence]
    return [sentence, "below 1 TiB AWS does not document the capacity, so it is inferred"]


def _current_load(assessment: Assessment) -> list[str]:
    reads, writes = assessment.consumed_read_iops, assessment.consumed_write_iops
    if reads is None or writes is None:
        return []
    return [f"{reads:,.0f} reads/s and {writes:,.0f} writes/s over the newest five minutes"]


def _mode(explanation: Explanation) -> list[str]:
    settings, policy = explanation.decision.volume_settings, explanation.policy.mode
    tags = explanation.assessment.volume.tags
    if MODE in tags:
        source = f"tag {MODE}={sanitise(tags[MODE], 40)}"
    elif tags.get(policy.opt_in_tag[0]) == policy.opt_in_tag[1]:
        source = f"tag {'='.join(policy.opt_in_tag)}"
    else:
        source = "the policy's default, no tag asks for another"
    critical = ["tagged critical"] if settings.is_critical else []
    faults = [f"tag at fault: {fault}" for fault in settings.faults]
    return [
        f"{settings.mode} ({source}): {_MODE_DESCRIPTIONS[settings.mode]}",
        *_describe_act_rule(explanation),
        *critical,
        *faults,
    ]


def _describe_act_rule(explanation: Explanation) -> list[str]:
    """At which level a drain flips it, and by which rule."""
    rule = explanation.act_rule
    if rule is None or explanation.decision.volume_settings.mode is Mode.OBSERVE:
        return []
    return [
        str(rule) if explanation.decision.volume_settings.mode is Mode.AUTO else f"in mode auto it {rule}"
    ]


def _guards(planned: PlannedFlip | None, flip: Flip | None, runbooks_url: str) -> list[str]:
    """The guards that would refuse a modification by the watchdog now, whether or not it intends one."""
    if planned is None or (flip is not None and (flip.is_under_way or flip.is_permanent)):
        return []
    plan = planned.plan
    action = "a flip" if planned.is_flip else "its return"
    destination = f" to {plan.target}" if plan.target else ""
    if not plan.refusals:
        return [f"none refuses {action}{destination} by the watchdog now"]
    text = [
        f"{action}{destination} by the watchdog is refused now:",
        *(describe_refusal(refusal, plan.context.now_s) for refusal in plan.refusals),
    ]
    return [*text, *runbook_hints(refusing_guards([planned]), runbooks_url)]


def _target(planned: PlannedFlip | None) -> list[str]:
    """Why a flip would have these numbers, and why one that a person orders may have more."""
    if planned is None or not planned.is_flip or planned.plan.sizing is None:
        return []
    plan, sizing = planned.plan, planned.plan.sizing
    best_iops = max(BURST_IOPS, baseline_iops(plan.context.volume.size_gib))
    if plan.order.cause is not FlipCause.DRAINING or (sizing.configuration.iops or 0) >= best_iops:
        return list(sizing.reasons)
    by_person = f"burstctl flip plans for {best_iops:,} IOPS, unless --iops says otherwise"
    return [*sizing.reasons, f"{by_person}: the future demand is unknown"]


def _windows(explanation: Explanation) -> list[str]:
    if explanation.windows is None:
        return []
    occurrences = [
        describe_occurrence(occurrence)
        for occurrence in (*explanation.windows.running, *explanation.windows.upcoming)
    ]
    return [
        f"{', '.join(explanation.window_names)}: {PHASE_DESCRIPTIONS[explanation.windows.phase]}",
        *occurrences,
    ]


def _windows_document(explanation: Explanation) -> "VolumeWindowsDocument | None":
    if explanation.windows is None:
        return None
    return {
        "names": list(explanation.window_names),
        "phase": explanation.windows.phase,
        "running": [occurrence_document(occurrence) for occurrence in explanation.windows.running],
        "next": [occurrence_document(occurrence) for occurrence in explanation.windows.upcoming],
    }


def _ledger_state(explanation: Explanation) -> list[str]:
    state = explanation.state
    if explanation.is_unread:
        lines = [UNREADABLE_STATE]
    elif state is None:
        lines = ["there is no flip, hold or alert of this volume"]
    else:
        lines = [describe_level(state)]
        if state.alerts.level_at_s is not None:
            lines.append(f"alerted as {state.alerts.open_level} at {format_instant(state.alerts.level_at_s)}")
        if state.alerts.is_gap_open:
            lines.append("its missing data was alerted")
    return [*lines, *(entry_line(entry) for entry in explanation.entries[-MAX_ENTRIES:])]


def entry_line(entry: LedgerEntry) -> str:
    """One entry of the ledger in a line."""
    body = entry.body
    match entry.kind:
        case EntryKind.LEVEL_CHANGED:
            summary = f"level {body.get('from')} -> {body.get('to')}"
        case EntryKind.ALERT:
            summary = f"alert {body.get('kind')} ({body.get('level')})"
        case EntryKind.DELIVERED:
            summary = f"delivered to {body.get('channel')}"
        case _:
            summary = str(body.get("summary", entry.kind.replace("_", " ")))
    return f"{format_instant(entry.at_s)} {summary}"


def not_explained(skipped: "SkippedDocument") -> "NotExplainedDocument":
    """The document about a resource that was not found, or is ignored."""
    return {
        "schema": SCHEMA,
        "volume": None,
        "instance": None,
        "file_system": None,
        "database": None,
        **skipped,
    }
