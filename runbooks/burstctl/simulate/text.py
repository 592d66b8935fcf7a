"""A simulation as text: the answer, the spells, the types beside it, and what it cannot show."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Final

from burstctl.cli.output import list_first, print_info
from burstctl.cli.styled_text import StyledText, render_styled
from burstctl.cli.text_layout import Topic, lay_out_topics, text_columns
from burstctl.render.table import Table
from burstctl.simulate.ceilings import Ceiling
from burstctl.simulate.collect import SimulationReport
from burstctl.simulate.simulation import EmptySpell, InstanceBucket, SimulationResult
from burstctl.simulate.study import Study, SustainedDrain, TypeStudy
from burstwatch.core.durations import DAY_S, format_duration_literal
from burstwatch.core.instances.larger_type import other_families
from burstwatch.core.text import format_clock, format_count, format_duration, format_usd, sanitise
from burstwatch.core.watch.api_cost import USD_PER_METRIC

MAX_SPELLS: Final = 12
MAX_TYPES: Final = 16
"""Lines of the two tables; --json has all."""

_TYPE_TITLES: Final = ("TYPE", "IOPS", "MIB/S", "EMPTY", "LOWEST I/O", "THROUGHPUT")
_MAX_NAME_CHARS: Final = 30
_EMPTY_STYLE: Final = "bold red"
_ENOUGH_STYLE: Final = "green"


def render_report(report: SimulationReport) -> str:
    """The whole answer; fits 60 columns."""
    study = report.study
    topics = [
        ("Answer", _answer(study)),
        ("Lowest", [] if study.target.is_sustained else [_describe_lowest(study.target)]),
        ("Enough", [_describe_smallest(report)]),
        ("Volumes", _describe_volumes(report)),
        ("Plan", _describe_plan(study)),
    ]
    caveats = [
        ("Measured", _describe_measured(study)),
        ("Data", _describe_data(report)),
        ("Assumed", _describe_assumptions(study)),
    ]
    parts = [
        lay_out_topics(describe_subject(report), topics),
        *(
            render_styled(table.to_lines())
            for table in (_spell_table(study), _type_table(study))
            if table.lines
        ),
        _lay_out(caveats),
    ]
    return "\n\n".join(parts)


def describe_subject(report: SimulationReport) -> str:
    """Which instance it is, and which time was measured."""
    study, instance = report.study, report.study.inputs.instance
    name = sanitise(instance.name, _MAX_NAME_CHARS) if instance and instance.name else None
    subject = report.request.instance_id + (f" ({name})" if name else "")
    subject += f", {instance.instance_type}" if instance else ""
    days = (study.end_s - study.start_s) / DAY_S
    return f"{subject}: {days:.1f} days until {_moment(study.end_s)} UTC"


def describe_answer(whole_study: Study) -> str:
    """Say that m7g.large would have been empty 6 times, for 3 h 40 min in all, first on Tue 10 Nov.

    If the load was throttled, more may have been wanted, so more may have been empty.
    """
    study, throttled_s = whole_study.target, whole_study.throttled_s
    spells = study.result.spells
    if study.is_sustained:
        limits = study.instance_type.limits
        assert limits is not None
        return (
            f"{study.name} has no EBS burst credits, so it is never empty: it sustains its maximum of"
            f" {limits.max_iops:,} IOPS and {limits.max_throughput_mib_s:,.0f} MiB/s."
        )
    if not spells and throttled_s:
        return (
            f"{study.name} would not have been empty by the load that was served. Whether it is enough is not"
            f" known: for {format_duration(throttled_s)} less was served than was wanted."
        )
    if not spells and study.sustained_drain is not None:
        drain = _describe_sustained_drain(study, study.sustained_drain)
        return f"{study.name} would {_not_in_data(whole_study)}, but {drain}"
    if not spells:
        return f"{study.name} would {_not_or_never(whole_study)}."
    first, in_all = datetime.fromtimestamp(spells[0].start_s, UTC), format_duration(study.result.empty_s)
    least = " at least" if throttled_s else ""
    has_been = "was empty" if study.is_measured else f"would have been empty{least}"
    return (
        f"{study.name} {has_been} {_times(len(spells))}, for {in_all} in all, first on"
        f" {first:%a} {first.day} {first:%b} at {first:%H:%M} UTC."
    )


def _not_or_never(study: Study) -> str:
    """Never, if the data are of the whole time that was wanted."""
    return _not_in_data(study) if study.is_short else "never have been empty"


def _not_in_data(study: Study) -> str:
    return f"not have been empty in the {format_duration(study.end_s - study.start_s)} of data"


def _describe_sustained_drain(study: TypeStudy, drain: SustainedDrain) -> str:
    sustained = study.buckets.of(drain.kind).refill_per_s
    return (
        f"its {drain.kind.label} bucket falls: the load is {drain.mean_per_s:,.0f} {_unit_per_s(drain.kind)}"
        f" on average, and the type sustains {sustained:,.0f}. If it goes on, the bucket is empty about"
        f" {format_duration(drain.empty_in_s)} later."
    )


def print_notes(report: SimulationReport) -> None:
    """Print the notes that a person should read in addition to the answer."""
    if report.left_out:
        print_info(
            f"left out: {list_first(report.left_out)}: another architecture than"
            f" {report.study.target.name}, or no EBS limits"
        )
    calls = format_count(sum(report.api_calls.values()), "call")
    usd = format_usd(report.metrics_requested * USD_PER_METRIC, decimals=5)
    print_info(f"read {report.metrics_requested:,} metrics for {usd}, in {calls} to AWS")


def _answer(whole_study: Study) -> list[str]:
    study, throttled_s = whole_study.target, whole_study.throttled_s
    result = study.result
    sentences = [describe_answer(whole_study)]
    by_bucket = [kind for kind in InstanceBucket if result.of(kind).spells]
    if len(by_bucket) == 1:
        sentences.append(f"It is the {by_bucket[0].label} bucket ({by_bucket[0].metric}) that is empty.")
    elif by_bucket:
        parts = [f"the {kind.label} bucket {_times(len(result.of(kind).spells))}" for kind in by_bucket]
        sentences.append(f"It is {' and '.join(parts)}.")
    if study.is_measured:
        sentences.append("That was measured. The load is not simulated, because it was throttled.")
    if result.at_maximum_s and not result.spells:
        sentences.append(
            f"Its load asked for more than its maximum for {format_duration(result.at_maximum_s)}."
        )
    if throttled_s and not study.is_sustained:
        return sentences
    if study.is_certain and not study.is_sustained:
        sentences.append("That holds for any shape of the load within each five minutes.")
    elif study.is_enough and not study.is_sustained:
        sentences.append("That holds if the load within each five minutes is even: bursts could empty it.")
    return sentences


def _describe_lowest(study: TypeStudy) -> str:
    parts = []
    for kind in InstanceBucket:
        lowest = study.result.of(kind).lowest_pct
        if lowest is None:
            parts.append(f"{kind.label}: sustained, no bucket")
        elif study.cannot_drain(kind):
            parts.append(f"{kind.label}: full, it cannot drain")
        else:
            bound_pct = study.bounds_pct[kind]
            bound = f", at least {bound_pct:.1f} % with bursts" if lowest > 0 and bound_pct <= lowest else ""
            parts.append(f"{kind.label}: {lowest:.1f} %{bound}")
    return "; ".join(parts)


def _describe_smallest(report: SimulationReport) -> str:
    study = report.study
    smallest = study.smallest
    if not smallest:
        none = f"None of the {format_count(len(study.candidates), 'type')} looked at"
        if report.request.patterns:
            return f"{none}: see --types for others."
        patterns = other_families(study.target.name)
        return f"{none}. To look in other families: --types '{patterns}'."
    if study.throttled_s:
        names = ", ".join(item.name for item in smallest)
        sustaining = study.sustaining
        sustained = f" {sustaining.name} sustains all of its load without credits." if sustaining else ""
        served = (
            f"The smallest that would not have been empty by the load that was served: {names}, or larger."
        )
        return f"{served}{sustained}"
    parts = [f"{item.name}{'' if item.is_certain else ' (if the load is even)'}" for item in smallest]
    return f"The smallest that would {_not_or_never(study)}: {', '.join(parts)}."


def _describe_volumes(report: SimulationReport) -> list[str]:
    study = report.study
    if report.volumes is None:
        return ["They could not be read, so only the instance type limits the load."]
    if not report.volumes:
        return ["None is attached today, so only the instance type limits the load."]
    attached = format_count(len(report.volumes), "volume")
    ceiling = study.inputs.ceiling
    sentences = [f"{attached} attached today, {_describe_ceiling(ceiling)} together."]
    if study.was_above_ceiling:
        sentences.append(
            "The load was higher than that, so the volumes were others then. Its peak counts instead."
        )
    return [*sentences, *_describe_bounds(study)]


def _describe_bounds(study: Study) -> Iterable[str]:
    """What follows from the limits of the volumes alone, whatever the load is."""
    target = study.target
    for kind in InstanceBucket:
        bucket, most = target.buckets.of(kind), study.ceiling.of(kind)
        if not bucket.capacity or not isfinite(most):
            continue
        unit = _unit_per_s(kind)
        if target.cannot_drain(kind):
            yield (
                f"The {kind.label} bucket cannot drain: {target.name} sustains"
                f" {bucket.refill_per_s:,.0f} {unit}, and the volumes serve at most {most:,.0f}."
            )
        else:
            lasts_s = bucket.capacity / bucket.highest_drain_per_s
            yield (
                f"At the limits of the volumes, a full {kind.label} bucket lasts {format_duration(lasts_s)}."
            )


def _describe_plan(study: Study) -> list[str]:
    inputs = study.inputs
    if not inputs.planned:
        return []
    plans = ", ".join(plan.text for plan in inputs.planned)
    sentences = [f"With {plans}, the volumes serve {_describe_ceiling(inputs.planned_ceiling)}."]
    if study.raised is None:
        return sentences
    if not study.at_ceiling_s:
        sentences.append(
            "The load was never at the limit of today's volumes for five minutes, so it was simulated as it"
            " is."
        )
        return sentences
    sentences.append(
        f"For {format_duration(study.at_ceiling_s)} the load was at the limit of today's volumes. With the"
        f" plan it may rise: {study.target.name} {_describe_raised(study.raised, study.throttled_s)}."
    )
    return sentences


def _describe_raised(raised: SimulationResult, throttled_s: float) -> str:
    if not raised.spells and throttled_s:
        return "may then have been empty, but for how long is not known"
    if not raised.spells:
        return "would still never have been empty"
    bound = "at least" if throttled_s else "up to"
    return (
        f"would then have been empty {bound} {_times(len(raised.spells))}, for"
        f" {format_duration(raised.empty_s)} in all"
    )


def _describe_measured(study: Study) -> list[str]:
    inputs, instance = study.inputs, study.inputs.instance
    measured_on = inputs.measured_on.name if inputs.measured_on else "the present type"
    sentences = [
        f"The I/O was served by {measured_on} and its volumes: load that they held back is not visible."
    ]
    sentences += [
        f"WARNING: {reached.limit} for {format_duration(reached.seconds)}, first on"
        f" {_moment(reached.first_at_s)}. The real load"
        f" {'was' if reached.is_certain else 'may have been'} higher."
        for reached in study.limits_reached
    ]
    if instance and instance.started_at_s and instance.started_at_s > study.start_s:
        sentences.append(
            f"It was started on {_moment(instance.started_at_s)}. A type can change while an instance is"
            " stopped, and EC2 does not show an earlier one: what was measured before may be of another."
        )
    if study.above_type_at_s is not None:
        sentences.append(
            f"On {_moment(study.above_type_at_s)} it served more than {measured_on} can: it was another type."
        )
    unknown = [
        kind.metric for kind in InstanceBucket if not inputs.balances[kind] and _has_bucket(study, kind)
    ]
    if unknown:
        reason = (
            ": it has detailed monitoring, and AWS publishes them with basic monitoring only"
            if instance and instance.has_detailed_monitoring
            else ""
        )
        sentences.append(f"CloudWatch has no {' and '.join(unknown)} of it{reason}.")
    return sentences


def _has_bucket(study: Study, kind: InstanceBucket) -> bool:
    limits = study.inputs.measured_on.limits if study.inputs.measured_on else None
    if limits is None:
        return False
    if kind is InstanceBucket.IO:
        return limits.baseline_iops < limits.max_iops
    return limits.baseline_throughput_mib_s < limits.max_throughput_mib_s


def _describe_data(report: SimulationReport) -> list[str]:
    sentences = []
    study = report.study
    known_s = study.end_s - study.start_s
    if study.is_short:
        sentences.append(
            f"WARNING: CloudWatch has {format_duration(known_s)} of its I/O, not"
            f" {format_duration_literal(report.request.lookback)}:"
            " a load that comes once a day or once a week may be missing."
        )
    if study.data_gaps:
        longest_s = max(end_s - start_s for start_s, end_s in study.data_gaps)
        sentences.append(
            f"{format_duration(study.unknown_s)} without data in {format_count(len(study.data_gaps), 'gap')},"
            f" the longest {format_duration(longest_s)}: unknown, so the balances stay as they were."
        )
    instance, target = study.inputs.instance, study.target
    architectures = target.instance_type.architectures
    if instance and instance.architecture and architectures and instance.architecture not in architectures:
        sentences.append(
            f"{target.name} is {', '.join(sorted(architectures))}, the instance {instance.architecture}: it"
            " needs another image."
        )
    return sentences


def _describe_assumptions(study: Study) -> list[str]:
    reset_s = study.inputs.daily_reset_s
    reset = (
        "AWS fills them daily at a time that it does not document: not assumed (--daily-reset)."
        if reset_s is None
        else f"AWS fills them daily at {format_clock(reset_s)} UTC, as --daily-reset says."
    )
    capacity = "Both buckets are full at first. They last 30 minutes at the maximum of the type, AWS's rule."
    return [
        f"{capacity} {reset}",
        "Load that is held back waits and is served later; nothing is lost.",
    ]


def _spell_table(study: Study) -> Table:
    """When it is empty; on a narrow terminal without what is waiting, then without the end."""
    titles = ("EMPTY FROM (UTC)", "UNTIL", "FOR", "BUCKET", "WAITING AT MOST")
    result = study.target.result
    spells = result.spells[:MAX_SPELLS]
    more = len(result.spells) - len(spells)
    return Table(
        titles=titles,
        lines=[_spell_line(result, spell, is_simulated=not study.target.is_measured) for spell in spells],
        right_aligned=frozenset({"FOR", "WAITING AT MOST"}),
        notes=[f"and {more:,} more, which --json shows"] if more else [],
    ).fit_columns([titles, titles[:4], (titles[0], *titles[2:4])], text_columns())


def _spell_line(result: SimulationResult, spell: EmptySpell, *, is_simulated: bool) -> list[StyledText]:
    kinds = result.buckets_of(spell)
    until = _moment(spell.end_s) if spell.end_s - spell.start_s >= DAY_S else format_clock(spell.end_s)
    waiting = "not known"
    if is_simulated:
        waiting = ", ".join(_describe_waiting(result, kind, spell) for kind in kinds)
    return [
        StyledText(_moment(spell.start_s)),
        StyledText(until),
        StyledText(format_duration(spell.empty_s), _EMPTY_STYLE),
        StyledText(" and ".join(kind.label for kind in kinds)),
        StyledText(waiting),
    ]


def _describe_waiting(result: SimulationResult, kind: InstanceBucket, spell: EmptySpell) -> str:
    own = [
        item for item in result.of(kind).spells if item.start_s < spell.end_s and item.end_s > spell.start_s
    ]
    most = max(item.max_waiting for item in own)
    return f"{most:,.0f} {'operations' if kind is InstanceBucket.IO else 'MiB'}"


def _type_table(study: Study) -> Table:
    """The types beside it; on a narrow terminal with the lower of the two balances, then without limits."""
    listed = _shown_types(study)
    more = len(study.candidates) - len(listed)
    table = Table(
        titles=(*_TYPE_TITLES, "LOWEST"),
        lines=[_type_line(study, item) for item in listed],
        right_aligned=frozenset({"IOPS", "MIB/S", "LOWEST I/O", "THROUGHPUT", "LOWEST"}),
        notes=[f"sustained limits; and {more:,} more, which --json shows"] if more else ["sustained limits"],
    )
    forms = [_TYPE_TITLES, (*_TYPE_TITLES[:4], "LOWEST"), ("TYPE", "EMPTY", "LOWEST")]
    return table.fit_columns(forms, text_columns())


def _shown_types(study: Study) -> list[TypeStudy]:
    """Of each family up to the first type that is enough, and the target."""
    enough = {item.instance_type.family: item for item in reversed(study.smallest)}
    listed: list[TypeStudy] = []
    done: set[str] = set()
    for item in study.candidates:
        family = item.instance_type.family
        if family not in done or item is study.target:
            listed.append(item)
        if enough.get(family) is item:
            done.add(family)
    return listed[:MAX_TYPES]


def _type_line(study: Study, item: TypeStudy) -> list[StyledText]:
    result = item.result
    style = _ENOUGH_STYLE if item.is_enough else _EMPTY_STYLE
    style = "" if result.is_sufficient and study.throttled_s else style
    return [
        StyledText(item.name, "bold" if item is study.target else ""),
        StyledText(f"{item.buckets.io.refill_per_s:,.0f}"),
        StyledText(f"{item.buckets.throughput.refill_per_s:,.0f}"),
        StyledText(_describe_outcome(item, is_throttled=study.throttled_s > 0), style),
        *(StyledText(_format_lowest([item.result.of(kind).lowest_pct])) for kind in InstanceBucket),
        StyledText(_format_lowest([item.result.of(kind).lowest_pct for kind in InstanceBucket])),
    ]


def _describe_outcome(item: TypeStudy, *, is_throttled: bool) -> str:
    result = item.result
    if result.spells:
        return f"{_times(len(result.spells))}, {format_duration(result.empty_s)}"
    if result.at_maximum_s:
        return f"at its maximum {format_duration(result.at_maximum_s)}"
    if is_throttled and not item.is_sustained:
        return "not known"
    if item.sustained_drain is not None:
        return "if it goes on"
    return "never" if item.is_certain else "never if even"


def _format_lowest(balances_pct: Sequence[float | None]) -> str:
    """The lowest of these balances; None is a bucket that a type does not have."""
    known = [balance_pct for balance_pct in balances_pct if balance_pct is not None]
    return f"{min(known):.1f} %" if known else "sustained"


def _describe_ceiling(ceiling: Ceiling) -> str:
    parts = [
        f"{ceiling.of(kind):,.0f} {_unit_per_s(kind)}"
        for kind in InstanceBucket
        if isfinite(ceiling.of(kind))
    ]
    return f"at most {' and '.join(parts)}" if parts else "without a known limit"


def _unit_per_s(kind: InstanceBucket) -> str:
    return "IOPS" if kind is InstanceBucket.IO else "MiB/s"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _moment(at_s: float) -> str:
    at = datetime.fromtimestamp(at_s, UTC)
    return f"{at:%a} {at.day} {at:%b %H:%M}"


def _lay_out(topics: Sequence[Topic]) -> str:
    return lay_out_topics("", topics).lstrip("\n")
