"""The pages for people: one for each alert and each alarm, every link and every command in them good."""

import re
import shlex

import click
import pytest
from operators_desk import ROOT
from some_alerts import a_digest, alerts_about_events

from burstctl.main import burstctl
from burstwatch.core.alerts import AlertKind
from burstwatch.core.guards import OF_AWS, Guard

RUNBOOKS = ROOT / "runbooks"
PAGES = sorted(RUNBOOKS.glob("*.md"))
INDEX = (RUNBOOKS / "README.md").read_text()
REFUSED = (RUNBOOKS / "FlipRefused.md").read_text()
SECTIONS = ["Meaning", "Impact", "Diagnosis", "Mitigation", "Undo"]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
ALARMS = sorted(
    set(re.findall(r'(?:name=|NET: Final = )"([A-Z]\w+)"', (ROOT / "infra" / "alarms.py").read_text()))
)
PLANNED_JOBS = ["MovingToGp3"]
"""Pages for what is done by day, and not because of an alert."""

NEVER = OF_AWS | {Guard.NO_CHANGE_NEEDED}
ONLY_AUTOMATIC = {Guard.NOT_OPTED_IN, Guard.CHANGED_BY_OTHERS, Guard.CHANGE_HOURS}


def commands_on(page):
    """What the page's console blocks have people paste, lines that go on joined."""
    blocks = re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL)
    text = "\n".join(blocks).replace("\\\n", " ")
    return [line.strip().removeprefix("$ ") for line in text.splitlines() if line.strip().startswith("$ ")]


def rows_of(text):
    """The cells of each row of a page's tables, by the guard that the row begins with."""
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return {name: row for row in rows for name in re.findall(r"`(\w+)`", row[0])}


@pytest.mark.parametrize("kind", [*AlertKind, *ALARMS, *PLANNED_JOBS])
def test_each_alert_alarm_and_job_has_a_page_of_its_name_with_every_section(kind):
    lines = (RUNBOOKS / f"{kind}.md").read_text().splitlines()
    assert lines[0] == f"# {kind}"
    assert [line.removeprefix("## ") for line in lines if line.startswith("## ")] == SECTIONS


@pytest.mark.parametrize("kind", [*AlertKind, *ALARMS, *PLANNED_JOBS])
def test_each_alert_alarm_and_job_stands_in_the_index_with_a_first_command(kind):
    [row] = [line for line in INDEX.splitlines() if line.startswith(f"| [{kind}]({kind}.md) |")]
    assert re.search(r"\| `(burstctl|aws) [^`]+` \|$", row)


def test_no_page_is_about_an_alert_or_alarm_that_is_not_there():
    assert {page.stem for page in PAGES} - {"README"} == {*map(str, AlertKind), *ALARMS, *PLANNED_JOBS}


@pytest.mark.parametrize("guard", Guard)
def test_each_guard_is_explained_with_whether_a_person_may_override_it(guard):
    cells = rows_of(REFUSED)[guard]
    assert len(cells) == 5
    override = cells[-1].strip()
    expected = "no" if guard in NEVER else "only automatic" if guard in ONLY_AUTOMATIC else "yes"
    assert override.startswith(expected)
    assert ("AWS's" in override) is (guard in OF_AWS)


@pytest.mark.parametrize("guard", Guard)
def test_each_guard_stands_in_the_index(guard):
    override = rows_of(INDEX)[guard][-1].strip()
    expected = "no" if guard in NEVER else "is not asked" if guard in ONLY_AUTOMATIC else "yes"
    assert override.startswith(expected)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_leads_somewhere(page):
    links = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    assert [link for link in links if not (page.parent / link).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_can_be_pasted(page):
    for line in commands_on(page):
        words = shlex.split(line)
        assert words[0] in {"aws", "burstctl", "dd"}
        if words[0] == "burstctl":
            accepts(burstctl, words[1:])


@pytest.mark.parametrize("alert", [a_digest(), *alerts_about_events()], ids=lambda alert: alert.kind)
def test_the_command_in_an_alert_can_be_pasted(alert):
    words = shlex.split(alert.action or "")
    if words[:1] == ["burstctl"]:
        accepts(burstctl, words[1:])


def accepts(command, words, parent=None):
    """Parse as the command would, without running it; click raises where a word or an option is unknown."""
    context = command.make_context(command.name, list(words), parent=parent)
    if isinstance(command, click.Group):
        _, inner, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        accepts(inner, rest, context)


def test_a_command_with_an_option_that_is_not_there_would_be_found():
    with pytest.raises(click.UsageError, match="--quickly"):
        accepts(burstctl, ["flip", "vol-0123456789abcdef0", "--quickly"])
