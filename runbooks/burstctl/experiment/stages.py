"""How far an experiment has come, in words, and how to go on."""

from typing import Final

from burstctl.experiment.journal import Journal, Stage
from burstwatch.core.text import format_instant

_DESCRIPTIONS: Final = {
    Stage.LEAVING: "{volume} will be modified to {target}",
    Stage.AWAY: "{volume} is {target}",
    Stage.RETURNING: "{volume} will be modified to {original} again",
    Stage.WATCHING: "{volume} is {original} again, and its datapoints are waited for",
    Stage.CONCLUDED: "{volume} is about to be released",
    Stage.OVER: "the experiment with {volume} is over",
}


def describe_stage(journal: Journal) -> str:
    """The phase according to the journal; what AWS did since then is read on the next run."""
    text = _DESCRIPTIONS[journal.stage].format(
        volume=journal.volume_id, target=journal.target, original=journal.original
    )
    until_s = journal.stay_s and journal.out and journal.out.ended_s + journal.stay_s
    if journal.stage is Stage.AWAY and until_s:
        text += f", to stay until {format_instant(until_s)}"
    return f"{text}{', abandoned' if journal.is_abandoned else ''}"


def describe_resume(journal: Journal) -> str:
    """The commands that continue and that end the experiment."""
    command = f"burstctl experiment credit-reset {journal.volume_id}"
    if journal.is_abandoned:
        return f"run it again to return it: {command}"
    return f"run it again to resume, or with --abandon to return it at once: {command}"
