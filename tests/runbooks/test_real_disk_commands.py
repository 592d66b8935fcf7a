"""The unchanged lines of docs/incident.md: root and loop devices needed."""

import re
from pathlib import Path

import pytest

from support.runbooks.external_commands import page_command
from support.waiting import wait_until

WITHIN_S = 120


def test_the_incident_begins_and_ends_at_ctrl_c(disk_checkout):
    """As far as the first alert; tests/lab has one to its end."""
    line = page_command("docs/incident.md", "sudo .venv/bin/burstlab incident")

    code, text = disk_checkout.paste(line, within_s=WITHIN_S, until="alert: ")

    assert code == 130, text
    check_no_leftovers(text)


@pytest.mark.parametrize(
    ("line", "until"),
    [
        (page_command("docs/incident.md", "sudo .venv/bin/burstlab disk"), "export AWS_"),
        (page_command("docs/incident.md", "sudo .venv/bin/burstlab disk --load idle"), "export AWS_"),
        (page_command("docs/incident.md", "sudo .venv/bin/burstlab disk --credits 9000"), "export AWS_"),
    ],
    ids=["drains", "idle", "small bucket"],
)
def test_a_disk_is_made_and_taken_down_at_ctrl_c(disk_checkout, line, until):
    code, text = disk_checkout.paste(line, within_s=WITHIN_S, until=until)

    assert code == 130, text
    assert any("burstlab-disk-" in item for item in text)
    check_no_leftovers(text)


def test_what_is_left_of_killed_ones_is_cleaned(disk_checkout):
    code, text = disk_checkout.paste(
        page_command("docs/incident.md", "sudo .venv/bin/burstlab disk --clean"), within_s=WITHIN_S
    )

    assert code == 0, text


def check_no_leftovers(output):
    """No mount of what it said it made."""
    folders = set(re.findall(r"burstlab-disk-\w+", "".join(output)))
    wait_until(
        lambda: not [folder for folder in folders if folder in Path("/proc/self/mountinfo").read_text()]
    )
