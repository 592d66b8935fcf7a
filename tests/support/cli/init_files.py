"""The files that init writes."""

from burstctl.init.answers import Answers
from burstctl.init.files import POLICY_FILE, STAGE_FILE, render_policy_file, render_stage_file

ALERTS_ONLY = Answers(
    emails=("oncall@example.com", "storage@example.com"),
    slack_secret=None,
    regions=("eu-central-1",),
    flips=False,
    spend_cap="1000",
    change_hours="always",
)


def write(folder, answers):
    """The two files of these answers; the path of the stage."""
    (folder / POLICY_FILE).write_text(render_policy_file(answers))
    (folder / STAGE_FILE).write_text(render_stage_file(answers))
    return folder / STAGE_FILE
