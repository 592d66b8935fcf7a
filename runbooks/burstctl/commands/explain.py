"""``burstctl explain``: the decision about one volume, and every number behind it."""

from typing import Any, Final

import click

from burstctl.command import Command, Options, VolumeId, common_options
from burstctl.desk import Desk, reading_desk
from burstctl.exits import Exit
from burstctl.explanation import MOST_ENTRIES, SCHEMA, Explanation, explain_in_words, headline, to_document
from burstctl.output import say, show, to_json
from burstctl.telling import tell_failures
from burstwatch.core.report import Report
from burstwatch.core.words import fill
from burstwatch.watchdog import assess_volumes

_LABEL_COLUMNS: Final = 10
_COLUMNS: Final = 80


@click.command(
    cls=Command,
    examples=(
        ("burstctl explain vol-0123456789abcdef0", "why it is at its level, and what would change that"),
        ("burstctl explain vol-0123456789abcdef0 --json", "the same numbers for programs"),
    ),
    page="runbooks/BurstBalanceDraining.md",
)
@click.argument("volume", type=VolumeId())
@common_options
def explain(volume: str, options: Options) -> Exit:
    """Show the decision about VOLUME and every number behind it; changes nothing."""
    with reading_desk(options) as desk:
        report = assess_volumes(desk.shell, [volume], now_s=desk.shell.clock())
        if volume in report.ignored:
            say(f"{volume} carries the tag burstwatch:ignore=true, so nothing is decided about it")
        told = _explain(desk, report)
        if options.json:
            show(to_json(_document(told, report)))
        elif told is not None:
            show(_render(told))
        tell_failures(report)
        return Exit.FAILED if report.has_failed or report.missing else Exit.FINE


def _explain(desk: Desk, report: Report) -> Explanation | None:
    """The explanation of the one decision; None where the volume is ignored, or was not found."""
    if not report.decisions:
        return None
    (decision,) = report.decisions
    volume_id = decision.assessment.volume.volume_id
    return Explanation(
        decision=decision,
        policy=desk.shell.policy,
        now_s=report.now_s,
        state=desk.shell.ledger.states().get(volume_id),
        entries=desk.shell.ledger.entries(volume_id)[-MOST_ENTRIES:],
    )


def _document(told: Explanation | None, report: Report) -> dict[str, Any]:
    shared = {"ignored": report.ignored, "missing": report.missing, "failures": report.failures}
    return (to_document(told) if told else {"schema": SCHEMA, "volume": None}) | shared


def _render(told: Explanation) -> str:
    """A topic to a paragraph: its name on the left, its sentences beside it."""
    lines = fill(headline(told.decision).split(), _COLUMNS)
    for topic, sentences in explain_in_words(told):
        beside = [line for sentence in sentences for line in _hanging(sentence)]
        labels = [topic, *[""] * (len(beside) - 1)]
        lines += [f"{label:{_LABEL_COLUMNS}}{line}" for label, line in zip(labels, beside, strict=True)]
    return "\n".join(lines)


def _hanging(sentence: str) -> list[str]:
    first, *rest = fill(sentence.split(), _COLUMNS - _LABEL_COLUMNS - 2)
    return [first, *(f"  {line}" for line in rest)]
