"""A decision about one volume with every number behind it, in words and as a document."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from burstctl.cli.text_layout import COLUMNS, hang
from burstctl.render.flip_text import flip_document, flip_in_words, quota_document, quota_in_words
from burstctl.render.guard_override import page_hints, refusing_guards
from burstctl.render.pass_summary import hold_words
from burstctl.render.plan_json import hold_document, instant_or_none, plan_document
from burstctl.render.plan_text import refusal_words
from burstctl.render.planned_flip import Planned
from burstctl.render.table import CHANGING, UNKNOWN_WORDS, dry_words
from burstctl.render.volume import STATE_NOT_KNOWN, level_words
from burstctl.windows.status import PHASES, occurrence_document, occurrence_words
from burstwatch.adapters.notify.terminal import fill_action
from burstwatch.core.alerts.alert import describe_forecast, forecast_words
from burstwatch.core.alerts.drain_message import began_words
from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.assessment.drain_cause import find_fall
from burstwatch.core.assessment.severity import NEAR, RESTED, Level, explain_level
from burstwatch.core.buckets.forecast import BELIEVED_FOR, Drain, Forecast
from burstwatch.core.ebs.volume import BUCKET_CREDITS, BURST_IOPS, CREDITS_PER_PCT, worst_drain_per_s
from burstwatch.core.flips.outcome import Done, Outcome
from burstwatch.core.flips.triggers import ActRule, act_rule
from burstwatch.core.ledger.flip_state import Flip, Hold, Spent, spent_within
from burstwatch.core.ledger.ledger import EntryKind, LedgerEntry, VolumeState
from burstwatch.core.policy.policy import Mode, Policy
from burstwatch.core.policy.windows import WindowState, duration_sentence
from burstwatch.core.tag_keys import MODE
from burstwatch.core.text import format_duration, format_instant, format_time, format_when, printable
from burstwatch.core.watch.decide import Action, Decision
from burstwatch.core.watch.poll_interval import describe_spacing
from burstwatch.core.watch.report import describe

SCHEMA: Final = "burstwatch.explanation/v1"
MOST_ENTRIES: Final = 8
_LONGEST: Final = 600
_COMMAND_COLUMNS: Final = COLUMNS - 10
_WATCHDOG_DOES: Final = {
    Action.FLIP: "the watchdog flips it, if it may act and no guard refuses",
    Action.FLIP_BACK: "the watchdog flips it back, if it may act and no guard refuses",
    Action.HOLD: "none while it is on hold",
}
_MODES: Final = {
    Mode.OBSERVE: "reports only, no alert",
    Mode.PROPOSE: "alerts with the command to run, modifies nothing",
    Mode.AUTO: "alerts, and may be flipped where the watchdog may act",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A decision made from one look, and what the ledger remembered before it.

    ``planned`` is what a modification by the watchdog would come to now: the flip, or the return of a flipped
    volume; None where neither makes sense. ``windows`` are None where the volume belongs to none.
    ``is_unread``: there is a state, and it cannot be read.
    """

    decision: Decision
    policy: Policy
    now_s: float
    state: VolumeState | None
    entries: Sequence[LedgerEntry]
    is_unread: bool = False
    holds: Sequence[Hold] = ()
    planned: Planned | None = None
    windows: WindowState | None = None
    window_names: Sequence[str] = ()

    @property
    def assessment(self) -> Assessment:
        return self.decision.assessment

    @property
    def act_rule(self) -> ActRule | None:
        """At which level a drain flips it; None where it does not matter, such as for a critical volume."""
        proposal, planned = self.decision.proposal, self.planned
        if planned is None or not planned.is_out or self.decision.wishes.is_critical:
            return None
        return act_rule(proposal.choice if proposal else planned.plan.choice, self.policy)

    @property
    def spent(self) -> tuple[Spent, ...]:
        """The modifications of the last 24 hours, as far as they are known."""
        if self.planned is not None:
            return self.planned.spent
        return spent_within(self.state.spent, self.now_s) if self.state else ()

    @property
    def is_in_focus(self) -> bool:
        change = self.decision.change
        return change is not None and change.state is not None and change.state.next_look_at_s is not None


def is_unrecorded(decision: Decision, state: VolumeState | None) -> bool:
    """Whether AWS is done with a change that the ledger still has as under way: no pass has seen it yet."""
    return (
        state is not None and state.flip is not None and state.flip.is_under_way and not decision.is_changing
    )


def urgent_lines(facts: Explanation) -> list[str]:
    """What is urgent, and the command that helps; nothing if nothing is, or if AWS is changing it already."""
    decision, assessment = facts.decision, facts.assessment
    forecast, proposal = assessment.forecast, decision.proposal
    if not decision.level.is_alerting or decision.flip is not None or forecast is None:
        return []
    state = forecast_words(describe_forecast(assessment, facts.now_s))
    if forecast.refills:
        state = dry_words(decision, facts.now_s)
    elif decision.level is Level.EXHAUSTED:
        state = f"out of credits, throttled to its baseline of {assessment.baseline_iops:,} IOPS"
    lines = hang(f"{str(decision.level).upper()}: {state}", COLUMNS)
    if proposal is None or forecast.refills:
        return lines
    action = fill_action(printable(proposal.action, _LONGEST), COLUMNS - 2)
    if (who := _who_flips(facts)) is not None:
        lines += hang(f"{who[0].upper()}{who[1:]}. To do it now:", COLUMNS)
    return [*lines, *(f"  {line}" for line in action), *hang(_duration(facts), COLUMNS)]


def explain_in_words(facts: Explanation, *, verbose: bool) -> list[tuple[str, list[str]]]:
    """Topics with their sentences; hostile text is made inert. ``verbose`` adds how each was worked out."""
    assessment, forecast = facts.assessment, facts.assessment.forecast
    topics = [("Level", _level(facts)), ("Next step", _next_step(facts))]
    if assessment.volume.is_gp2:
        topics.append(("Baseline", _baseline(assessment)))
    if forecast is not None:
        topics += [
            ("Balance", _balance(facts)),
            ("Bound", _bound(facts, forecast)),
            ("Drains", _drains(assessment, forecast) if verbose else []),
            ("Began", _began(facts, forecast)),
            ("Estimate", _estimate(facts, forecast)),
            ("Served", _served(assessment)),
            ("Next", _next_levels(facts.decision.level, facts.policy) if verbose else []),
        ]
    topics += [("Mode", _mode(facts)), ("Look", _look(facts) if verbose else [])]
    if facts.decision.flip is not None:
        topics.append(("Flip", flip_in_words(facts.decision.flip, facts.now_s)))
    topics += [
        ("Others", _others(facts.state)),
        ("Guards", _guards(facts.planned, facts.decision.flip, facts.policy.alerts.runbooks_url)),
        ("Hold", [hold_words(hold, facts.now_s) for hold in facts.holds]),
    ]
    quota = [STATE_NOT_KNOWN] if facts.is_unread else quota_in_words(facts.spent, facts.now_s)
    topics += [("Windows", _windows(facts)), ("Quota", quota)]
    topics += [("Ledger", _remembered(facts) if verbose or facts.is_unread else [])]
    return [(topic, [printable(line, _LONGEST) for line in lines]) for topic, lines in topics if lines]


def _others(state: VolumeState | None) -> list[str]:
    """Whether somebody else changed what we flipped, and nobody has released it since."""
    if state is None or state.contested_at_s is None:
        return []
    seen, release = format_instant(state.contested_at_s), f"burstctl release {state.volume_id}"
    return [f"somebody else changed it after our flip, seen {seen}; it is left to people until: {release}"]


def to_document(facts: Explanation) -> dict[str, Any]:
    """The explanation as ``--json`` prints it."""
    assessment, forecast = facts.assessment, facts.assessment.forecast
    speaking = _speaking(assessment, forecast) if forecast else None
    return {
        "schema": SCHEMA,
        "generated_at": format_instant(facts.now_s),
        "volume": describe(facts.decision, facts.now_s, Outcome(done=Done.NONE)),
        "previous_level": str(facts.decision.previous_level),
        "because": explain_level(assessment, facts.decision.level, facts.policy),
        "worst_drain_per_s": worst_drain_per_s(assessment.baseline_iops),
        "drains": [
            {
                "span_s": drain.span_s,
                "drain_per_s": round(drain.per_s, 1),
                "empty_in_s": _rounded(_empty_in_s(assessment, drain)),
                "believed_for_s": BELIEVED_FOR * drain.span_s,
                "counts": _counts(assessment, drain),
                "speaks": drain is speaking,
            }
            for drain in (forecast.drains if forecast else ())
        ],
        "is_believed": forecast is not None and forecast.is_believed,
        "consumed_read_iops": _rounded(assessment.consumed_read_iops),
        "consumed_write_iops": _rounded(assessment.consumed_write_iops),
        "next": _next_levels(facts.decision.level, facts.policy) if forecast else [],
        "look": {"interval_s": facts.decision.look_interval_s, "because": " ".join(_look(facts))},
        "flip": flip_document(facts.decision.flip) if facts.decision.flip else None,
        "contested_since": instant_or_none(facts.state.contested_at_s if facts.state else None),
        "act_at": facts.act_rule.to_document() if facts.act_rule else None,
        "plan": plan_document(facts.planned) if facts.planned else None,
        "holds": [hold_document(hold) for hold in facts.holds],
        "windows": _windows_document(facts),
        "quota": quota_document(facts.spent),
        "remembered": {
            "state": facts.state.to_document(is_whole=True) if facts.state else None,
            "entries": [entry.to_document() for entry in facts.entries],
        },
    }


def _level(facts: Explanation) -> list[str]:
    decision = facts.decision
    reason = facts.assessment.unknown_reason
    if reason is not None:
        why = facts.assessment.unknown_because or UNKNOWN_WORDS[reason]
    else:
        why = explain_level(facts.assessment, decision.level, facts.policy)
    before = f"; last judged {decision.previous_level}" if facts.state else ""
    if decision.is_changing and decision.flip is not None:
        since = format_time(decision.flip.asked_at_s, facts.now_s)
        judged = f"by its balance it would be {decision.level}: {why}" if reason is None else why
        return [f"{CHANGING}: on its way to {decision.flip.asked_for} since {since} UTC", judged]
    return [f"{decision.level}: {why}{before}"]


def _who_flips(facts: Explanation) -> str | None:
    """When the watchdog flips it, in mode auto; None where that is left to people."""
    decision, rule = facts.decision, facts.act_rule
    if decision.want is not None:
        return _WATCHDOG_DOES[Action.FLIP] if decision.action is Action.FLIP else None
    is_settled = decision.proposal is not None and decision.proposal.target is not None
    if decision.wishes.mode is not Mode.AUTO or rule is None or facts.holds or not is_settled:
        return None
    return f"the watchdog flips it at {rule.level}, if it may act and no guard refuses"


def _next_step(facts: Explanation) -> list[str]:
    """Who should do what now."""
    steps = _step_of(facts)
    unrecorded = "AWS has completed the change; the next pass of the watchdog records it"
    return [*steps, unrecorded] if is_unrecorded(facts.decision, facts.state) else steps


def _step_of(facts: Explanation) -> list[str]:
    decision, proposal, forecast = facts.decision, facts.decision.proposal, facts.assessment.forecast
    reason, mode = decision.reason, decision.wishes.mode
    caveat = [f"proposed: {proposal.target}; {proposal.caveat}"] if proposal and proposal.caveat else []
    if decision.is_changing:
        return [f"wait until AWS is done: {reason}", _duration(facts)]
    if decision.want is not None:
        who = _WATCHDOG_DOES[decision.action]
        return [f"{who}: {reason}", *caveat]
    if proposal is None or (forecast is not None and forecast.refills and not decision.wishes.is_critical):
        return [f"none: {reason}", *caveat]
    why = reason if f"mode {mode}" in reason else f"mode is {mode}; {reason}"
    who = _who_flips(facts) or f"you: {'flip it' if proposal.target else proposal.action}"
    what = f"{who} ({why})"
    is_above = decision.level.is_alerting or proposal.target is None
    return [what, *([] if is_above else fill_action(proposal.action, _COMMAND_COLUMNS)), *caveat]


def _duration(facts: Explanation) -> str:
    size_gib, empty_s = facts.assessment.volume.size_gib, facts.assessment.empty_s
    flip = facts.decision.flip if facts.decision.is_changing else None
    ago_s = facts.now_s - flip.asked_at_s if flip is not None else 0.0
    return duration_sentence(size_gib, facts.policy.lead, empty_s=empty_s, ago_s=ago_s)


def _balance(facts: Explanation) -> list[str]:
    assessment = facts.assessment
    assert assessment.sample is not None
    assert assessment.age_s is not None
    share = f"{assessment.sample.value:.1f} % of {BUCKET_CREDITS:,} = {_credits(assessment):,.0f} credits"
    minute = f"the minute that ended {format_time(assessment.sample.end_s, facts.now_s)} UTC"
    read = f"{share}, lowest of {minute}, {format_duration(assessment.age_s)} ago"
    spacing = describe_spacing(assessment.spacing_s)
    return [read, spacing] if spacing else [read]


def _baseline(assessment: Assessment) -> list[str]:
    size_gib = min(assessment.volume.size_gib, assessment.smaller_size_gib or assessment.volume.size_gib)
    modified = " (the smaller size of its modification)" if size_gib < assessment.volume.size_gib else ""
    product = 3 * size_gib
    least = f" = {product:,}, but at least" if product < assessment.baseline_iops else " ="
    earned = f"3 * {size_gib:,} GiB{modified}{least} {assessment.baseline_iops:,} IOPS"
    if not worst_drain_per_s(assessment.baseline_iops):
        return [f"{earned}, as much as the burst of {BURST_IOPS:,}: it cannot run dry"]
    return [f"{earned}; as many credits come back per second"]


def _bound(facts: Explanation, forecast: Forecast) -> list[str]:
    assessment = facts.assessment
    if not forecast.soonest_empty_s:
        return ["none: it may be dry by now"]
    lasts_s = _credits(assessment) / worst_drain_per_s(assessment.baseline_iops)
    worst = (
        f"{_credits(assessment):,.0f} / ({BURST_IOPS:,} - {assessment.baseline_iops:,}) = {lasts_s:,.0f} s"
    )
    since = f"less the {assessment.age_s:,.0f} s since the datapoint"
    soonest = format_time(facts.now_s + forecast.soonest_empty_s, facts.now_s)
    return [f"{worst}, {since}: not dry before {soonest} UTC"]


def _drains(assessment: Assessment, forecast: Forecast) -> list[str]:
    """One line to a horizon, and which one speaks."""
    speaking = _speaking(assessment, forecast)
    lines = [_drain_line(assessment, drain, speaks=drain is speaking) for drain in forecast.drains]
    if not lines:
        return ["too few datapoints for any horizon"]
    if speaking is None:
        return [*lines, f"{_why_no_drain(forecast)}, so no drain is believed"]
    rule = f"a drain is believed for {BELIEVED_FOR} times as long as it lasted"
    if forecast.is_believed:
        return [*lines, f"{rule}; of such drains the one that ends soonest speaks"]
    return [*lines, f"{rule}; none lasted long enough for what it says, so the longest speaks, unbelieved"]


def _drain_line(assessment: Assessment, drain: Drain, *, speaks: bool) -> str:
    empty_in_s = _empty_in_s(assessment, drain)
    empty = "not falling" if empty_in_s is None else f"dry in {format_duration(empty_in_s)}"
    rate = round(drain.per_s) or 0
    return f"over {drain.span_s // 60} min: {rate:,} credits/s, {empty}{' <-' if speaks else ''}"


def _why_no_drain(forecast: Forecast) -> str:
    """Why there is no estimate, in agreement with the drain of each horizon."""
    falling = [drain for drain in forecast.drains if drain.per_s > 0]
    if not falling:
        return "the balance has not fallen over any of these spans"
    still = next(drain for drain in reversed(forecast.drains) if drain.per_s <= 0)
    return f"it falls, but not steadily: over {still.span_s // 60} min it has not fallen"


def _began(facts: Explanation, forecast: Forecast) -> list[str]:
    """When the drain began that empties it, or did; nothing if no drain is believed."""
    is_empty = forecast.time_to_empty_s is not None and forecast.time_to_empty_s <= 0
    if not (forecast.is_believed or is_empty):
        return []
    return began_words(find_fall(facts.assessment.balance), now_s=facts.now_s)


def _estimate(facts: Explanation, forecast: Forecast) -> list[str]:
    if forecast.time_to_empty_s is None:
        is_falling = any(drain.per_s > 0 for drain in forecast.drains) and not forecast.refills
        if is_falling:
            return [f"none: {_why_no_drain(forecast)}"]
        refilling = dry_words(facts.decision, facts.now_s) if forecast.refills else "it is not draining"
        return [f"none: {refilling}"]
    if forecast.time_to_empty_s <= 0:
        return ["dry now"]
    assert forecast.drain_per_s is not None
    lasts_s = _credits(facts.assessment) / forecast.drain_per_s
    division = f"{_credits(facts.assessment):,.0f} / {forecast.drain_per_s:,.0f} = {lasts_s:,.0f} s"
    when = f"dry {_when(facts.now_s, forecast.time_to_empty_s)}"
    earliest, latest = _when(facts.now_s, forecast.earliest_s), _when(facts.now_s, forecast.latest_s)
    spread = [f"{earliest} by the fastest drain, {latest} by the slowest"] if earliest != latest else []
    trust = "" if forecast.is_believed else "; not believed, so it enters no level"
    return [f"{division}, less the {facts.assessment.age_s:,.0f} s: {when}{trust}", *spread]


def _when(now_s: float, span_s: float | None) -> str:
    return "never" if span_s is None else format_when(now_s + span_s, now_s, "UTC")


def _served(assessment: Assessment) -> list[str]:
    reads, writes = assessment.consumed_read_iops, assessment.consumed_write_iops
    if reads is None or writes is None:
        return []
    return [f"{reads:,.0f} reads/s and {writes:,.0f} writes/s over the newest five minutes"]


def _next_levels(level: Level, policy: Policy) -> list[str]:
    """What would make it worse, worst last, and what ends the present level."""
    levels, cadence = policy.levels, policy.cadence

    def span(of: Any) -> str:
        return format_duration(of.total_seconds())

    is_near = f"the bound is {span(cadence.act_lead)} or less"
    confirmed = f"when a drain that lasted twice as long ends within {span(levels.critical_within)}"
    entering = (
        (Level.WATCH, f"below {cadence.watch_below_pct:g} %"),
        (
            Level.WARNING,
            f"when a believed estimate is {span(levels.warning_within)} or less, or it drains and {is_near}",
        ),
        (Level.CRITICAL, f"{confirmed}, or {is_near} and the pace of ten minutes says so too"),
        (Level.EXHAUSTED, f"at or below {levels.exhausted_pct:g} %"),
    )
    still = (
        f"or the balance has not fallen for {span(levels.refilling_for)}; where the bound is"
        f" {span(NEAR * cadence.act_lead)} or less, only if not fallen for {span(RESTED)}"
    )
    leaving = {
        Level.WATCH: f"at {cadence.calm_from_pct:g} % or more, two minutes running",
        Level.WARNING: f"when the estimate is beyond {span(levels.warning_leave)}, {still}",
        Level.CRITICAL: f"when the estimate is beyond {span(levels.critical_leave)}, {still}",
        Level.EXHAUSTED: f"at {levels.exhausted_leave_pct:g} % or more, two minutes running",
    }
    worse = [f"{entered}: {when}" for entered, when in entering if entered.rank > level.rank]
    return [*worse, *([f"{level} ends {leaving[level]}"] if level in leaving else [])]


def _mode(facts: Explanation) -> list[str]:
    wishes, policy = facts.decision.wishes, facts.policy.mode
    tags = facts.assessment.volume.tags
    if MODE in tags:
        source = f"tag {MODE}={printable(tags[MODE], 40)}"
    elif tags.get(policy.opt_in_tag[0]) == policy.opt_in_tag[1]:
        source = f"tag {'='.join(policy.opt_in_tag)}"
    else:
        source = "the policy's default, no tag asks for another"
    critical = ["tagged critical"] if wishes.is_critical else []
    faults = [f"tag at fault: {fault}" for fault in wishes.faults]
    return [f"{wishes.mode} ({source}): {_MODES[wishes.mode]}", *_act_words(facts), *critical, *faults]


def _act_words(facts: Explanation) -> list[str]:
    """At which level a drain flips it, and by which rule."""
    rule = facts.act_rule
    if rule is None or facts.decision.wishes.mode is Mode.OBSERVE:
        return []
    return [str(rule) if facts.decision.wishes.mode is Mode.AUTO else f"in mode auto it {rule}"]


def _look(facts: Explanation) -> list[str]:
    interval_s, cadence, assessment = facts.decision.look_interval_s, facts.policy.cadence, facts.assessment
    if interval_s is None:
        return ["not polled while this lasts; its state is seen at every sweep"]
    every = f"every {format_duration(interval_s)}"
    if assessment.forecast is None:
        return [f"{every} until there is a datapoint"]
    worst = worst_drain_per_s(assessment.baseline_iops)
    if facts.is_in_focus:
        left, what = _credits(assessment), f"{assessment.balance_pct:.1f} %"
    else:
        left, what = cadence.watch_below_pct * CREDITS_PER_PCT, f"{cadence.watch_below_pct:g} %"
    lasts_s, reserve_s = left / worst, cadence.reserve.total_seconds()
    where = "in focus" if facts.is_in_focus else "in the sweep"
    lasts = f"{every}, {where}: {what} lasts {lasts_s:,.0f} s at worst"
    reserved = f"the {reserve_s:,.0f} s reserved for lag, slack and acting"
    if lasts_s <= reserve_s:
        return [f"{lasts}, no longer than {reserved}, so it is looked at as often as possible"]
    return [f"{lasts}; less {reserved}, {lasts_s - reserve_s:,.0f} s are left"]


def _guards(planned: Planned | None, flip: Flip | None, runbooks_url: str) -> list[str]:
    """What refuses a modification by the watchdog now, whether or not it wants one."""
    if planned is None or (flip is not None and (flip.is_under_way or flip.stays)):
        return []
    plan = planned.plan
    what = "a flip" if planned.is_out else "its return"
    to = f" to {plan.target}" if plan.target else ""
    if not plan.refusals:
        return [f"none refuses {what}{to} by the watchdog now"]
    said = [
        f"{what}{to} by the watchdog is refused now:",
        *(refusal_words(each, plan.facts.now_s) for each in plan.refusals),
    ]
    return [*said, *page_hints(refusing_guards([planned]), runbooks_url)]


def _windows(facts: Explanation) -> list[str]:
    if facts.windows is None:
        return []
    coming = [occurrence_words(each) for each in (*facts.windows.running, *facts.windows.upcoming)]
    return [f"{', '.join(facts.window_names)}: {PHASES[facts.windows.phase]}", *coming]


def _windows_document(facts: Explanation) -> dict[str, Any] | None:
    if facts.windows is None:
        return None
    return {
        "names": list(facts.window_names),
        "phase": str(facts.windows.phase),
        "running": [occurrence_document(each) for each in facts.windows.running],
        "next": [occurrence_document(each) for each in facts.windows.upcoming],
    }


def _remembered(facts: Explanation) -> list[str]:
    state = facts.state
    if facts.is_unread:
        lines = [STATE_NOT_KNOWN]
    elif state is None:
        lines = ["nothing is going on with this volume"]
    else:
        lines = [level_words(state)]
        if state.alerted_at_s is not None:
            lines.append(f"alerted as {state.alerted_level} at {format_instant(state.alerted_at_s)}")
        if state.gap_alerted:
            lines.append("its missing data was alerted")
    return [*lines, *(_entry_line(entry) for entry in facts.entries[-MOST_ENTRIES:])]


def _entry_line(entry: LedgerEntry) -> str:
    body = entry.body
    match entry.kind:
        case EntryKind.LEVEL_CHANGED:
            what = f"level {body.get('from')} -> {body.get('to')}"
        case EntryKind.ALERT:
            what = f"alert {body.get('kind')} ({body.get('level')})"
        case EntryKind.DELIVERED:
            what = f"delivered to {body.get('channel')}"
        case _:
            what = str(body.get("summary", entry.kind))
    return f"{format_instant(entry.at_s)} {what}"


def _speaking(assessment: Assessment, forecast: Forecast) -> Drain | None:
    """The horizon whose drain the forecast took."""
    if not forecast.draining:
        return None
    same = [drain for drain in forecast.drains if drain.per_s == forecast.drain_per_s]
    return next((drain for drain in same if _counts(assessment, drain)), same[-1] if same else None)


def _empty_in_s(assessment: Assessment, drain: Drain) -> float | None:
    return _credits(assessment) / drain.per_s if drain.per_s > 0 else None


def _counts(assessment: Assessment, drain: Drain) -> bool:
    empty_in_s = _empty_in_s(assessment, drain)
    return empty_in_s is not None and empty_in_s <= BELIEVED_FOR * drain.span_s


def _credits(assessment: Assessment) -> float:
    assert assessment.credits_left is not None
    return assessment.credits_left


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)
