"""The lines of docs/incident.md, as they stand there: root and loop devices needed."""

import re
from pathlib import Path

import pytest
from tests.lab.disks import needs_a_disk, wait_for
from tests.runbooks.a_checkout import Checkout
from tests.runbooks.pasted import the_line

WITHIN_S = 120


@pytest.fixture
def checkout(tmp_path):
    needs_a_disk()
    return Checkout(tmp_path / "burstwatch", {"TERM": "xterm"})


def test_the_incident_begins_and_ends_at_ctrl_c(checkout):
    """As far as the first alert; tests/lab has one to its end."""
    line = the_line("docs/incident.md", "sudo .venv/bin/burstlab incident")

    code, said = checkout.paste(line, within_s=WITHIN_S, until="alert: ")

    assert code == 130, said
    nothing_is_left(said)


@pytest.mark.parametrize(
    ("line", "until"),
    [
        (the_line("docs/incident.md", "sudo .venv/bin/burstlab disk"), "export AWS_"),
        (the_line("docs/incident.md", "sudo .venv/bin/burstlab disk --load idle"), "export AWS_"),
        (the_line("docs/incident.md", "sudo .venv/bin/burstlab disk --credits 9000"), "export AWS_"),
    ],
    ids=["drains", "idle", "small bucket"],
)
def test_a_disk_is_made_and_taken_down_at_ctrl_c(checkout, line, until):
    code, said = checkout.paste(line, within_s=WITHIN_S, until=until)

    assert code == 130, said
    assert any("burstlab-disk-" in each for each in said)
    nothing_is_left(said)


def test_what_is_left_of_killed_ones_is_cleaned(checkout):
    code, said = checkout.paste(
        the_line("docs/incident.md", "sudo .venv/bin/burstlab disk --clean"), within_s=WITHIN_S
    )

    assert code == 0, said


def nothing_is_left(said):
    """No mount of what it said it made."""
    folders = set(re.findall(r"burstlab-disk-\w+", "".join(said)))
    wait_for(lambda: not [each for each in folders if each in Path("/proc/self/mountinfo").read_text()])
