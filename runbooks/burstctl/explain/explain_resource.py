"""Reads what is explained of a resource, and prints it: the same steps for every kind."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import Options
from burstctl.cli.output import print_info, print_next, print_output, to_json
from burstctl.context.context import CommandContext
from burstctl.context.on_demand_pass import assess_volumes
from burstctl.context.resources import present_id_of
from burstctl.explain.explanation import MAX_ENTRIES, not_explained
from burstctl.explain.instance_explanation import ExplainedBucket
from burstctl.render.pass_summary import print_holds, print_report_failures
from burstwatch.core.ledger.unreadable_item import ItemKind
from burstwatch.core.resource_type import ResourceType, type_of_id
from burstwatch.core.watch.decision import Decision
from burstwatch.core.watch.pass_report import PassReport
from burstwatch.engine.collector import Collector

if TYPE_CHECKING:
    from documents.explanation import SkippedDocument


class AnyExplanation(Protocol):
    """What is known of one resource."""

    @property
    def is_unread(self) -> bool:
        """Whether the ledger could not be read about it."""


E = TypeVar("E", bound=AnyExplanation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explainer(Generic[E]):
    """How one kind of resource is explained; ``read`` gives None if it is ignored, or was not found."""

    read: Callable[[CommandContext, PassReport, Collector], E | None]
    to_document: Callable[[E], Mapping[str, Any]]
    render: Callable[..., str]
    """The explanation as text, ``verbose`` or not."""
    next_commands: Callable[[E], Sequence[Sequence[str]]]


def explain_resource(context: CommandContext, resource_id: str, explainer: Explainer[E]) -> ExitCode:
    """Print the explanation of a resource; changes nothing."""
    services, options = context.services, context.options
    report = assess_volumes(services, [resource_id], now_s=services.clock())
    report = replace(report, decisions=[_with_options(decision, options) for decision in report.decisions])
    if resource_id in report.ignored:
        print_info(f"{resource_id} carries the tag burstwatch:ignore=true, so nothing is decided about it")
    collector = services.build_collector(report.now_s)
    explanation = explainer.read(context, report, collector)
    if type_of_id(resource_id) is ResourceType.EBS:
        collector.excuse_denied_kinds()  # of a volume, all but what its instance allows is known
    report = replace(report, failures=[*report.failures, *collector.failures])
    if options.json:
        skipped = _skipped(report)
        document = (
            not_explained(skipped)
            if explanation is None
            else {**explainer.to_document(explanation), **skipped}
        )
        print_output(to_json(document))
    elif explanation is not None:
        print_output(explainer.render(explanation, verbose=options.verbose))
    print_holds(report.holds, report.now_s, {resource_id})
    print_report_failures(report)
    if resource_id in report.missing and (present_id := present_id_of(context, resource_id)) is not None:
        print_info(f"the database that had the name {resource_id} is named {present_id} now")
        if not options.json:
            print_next([options.command("explain", present_id)])
    for action in collector.excused_kinds.values():
        print_info(f"note: what its instance allows is not known: you lack the permission {action}")
    is_unread = explanation is not None and explanation.is_unread
    if is_unread:
        _drop_repeated_failure(context, resource_id)
    if explanation is not None and not options.json:
        commands = explainer.next_commands(explanation)
        print_next(options.command(*command) for command in commands)
    return ExitCode.FAILED if is_unread or report.has_failed or report.missing else ExitCode.OK


def _with_options(decision: Decision, options: Options) -> Decision:
    """The decision, its command with the options that were given: pasted, it uses the same ledger."""
    recommendation = decision.recommendation
    if recommendation is None:
        return decision
    action = options.complete(recommendation.action)
    return replace(decision, recommendation=replace(recommendation, action=action))


def explained_buckets(
    context: CommandContext, decisions: Sequence[Decision], now_s: float
) -> list[ExplainedBucket]:
    """The decisions with what the ledger has of each bucket."""
    ledger = context.services.ledger
    states = ledger.states_of({decision.assessment.subject for decision in decisions})
    return [
        ExplainedBucket(
            decision=decision,
            policy=context.services.policy,
            now_s=now_s,
            state=states.get(decision.assessment.subject),
            is_unread=decision.assessment.subject in states.unreadable,
            entries=ledger.entries(decision.assessment.subject)[-MAX_ENTRIES:],
        )
        for decision in decisions
    ]


def _drop_repeated_failure(context: CommandContext, resource_id: str) -> None:
    """Do not repeat at the end that the state of a volume cannot be read: it is the reason shown."""
    ledger = context.services.ledger
    for unreadable in ledger.take_unreadable():
        if (unreadable.kind, unreadable.subject) != (ItemKind.STATE, resource_id):
            ledger.note_unreadable(unreadable)


def _skipped(report: PassReport) -> "SkippedDocument":
    return {
        "ignored": list(report.ignored),
        "missing": list(report.missing),
        "failures": list(report.failures),
    }
