"""The pages for people: one for each alert and each alarm, and every link good.

That their commands do what they show is proved in ``tests/runbooks``.
"""

import re
import shlex
from contextlib import suppress

import click
import pytest

from burstctl.advise.rightsizing import AdviceVerdict
from burstctl.main import burstctl
from burstctl.render.guard_override import OVERRIDABLE
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.severity import Level
from burstwatch.core.flips.outcome import OutcomeStatus
from burstwatch.core.flips.refusal import AUTOMATION_ONLY, NON_OVERRIDABLE, Guard, guard_page
from burstwatch.core.policy.policy import Mode
from support.builders.alerts import a_digest, event_alerts_of_every_kind
from support.paths import ROOT

RUNBOOKS = ROOT / "runbooks"
PAGES = sorted(RUNBOOKS.glob("*.md"))
INDEX = (RUNBOOKS / "README.md").read_text()
REFUSED = (RUNBOOKS / "FlipRefused.md").read_text()
SECTIONS = ["Meaning", "Impact", "Mitigation", "Undo", "Diagnosis"]
JOB_SECTIONS = ["Meaning", "Impact", "Check first", "Procedure", "Undo"]
SCREEN_LINES = 25
COMMAND = re.compile(r"^ *\$ |`(?:burstctl|aws|cdk) [^`]+`")
ROW = re.compile(r"\| (?:<a id=\"\w+\"></a>)?`")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)]*))?\)")
DOCUMENTS = [*PAGES, *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("ddprobe/*.md")]
ALARMS = sorted(
    set(
        re.findall(
            r'(?:name=|BACKSTOP_ALARM: Final = )"([A-Z]\w+)"', (ROOT / "infra" / "alarms.py").read_text()
        )
    )
)
PLANNED_JOBS = [
    "BeforeAMigrationNight",
    "BeforeAuto",
    "ChoosingAnInstanceType",
    "CreditResetExperiment",
    "EtcdOnGp2",
    "LessIoInstead",
    "MovingToGp3",
    "Uninstall",
    "WhichLimit",
]
"""Pages for what is done by day, and not because of an alert."""
RESOURCE_PAGES = ["DatabaseWithoutCredits", "FileSystemWithoutCredits", "InstanceCredits"]
"""What the alerts of volumes mean for other resources."""


def rows_of(text):
    """The cells of each row of a page's tables, by the guard that the row begins with."""
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if ROW.match(line)]
    return {name: row for row in rows for name in re.findall(r"`(\w+)`", row[0])}


@pytest.mark.parametrize("kind", [*AlertKind, *ALARMS, *RESOURCE_PAGES, *PLANNED_JOBS])
def test_each_alert_alarm_and_job_has_a_page_of_its_name_with_every_section(kind):
    lines = (RUNBOOKS / f"{kind}.md").read_text().splitlines()
    assert lines[0] == f"# {kind}"
    expected = JOB_SECTIONS if kind in PLANNED_JOBS else SECTIONS
    assert [line.removeprefix("## ") for line in lines if line.startswith("## ")] == expected


@pytest.mark.parametrize("kind", [*AlertKind, *ALARMS, *RESOURCE_PAGES, *PLANNED_JOBS])
def test_each_page_begins_with_what_to_do_now(kind):
    above, _, _ = (RUNBOOKS / f"{kind}.md").read_text().partition("\n## ")
    assert f"# {kind}\n\n**Now:** " in above
    assert len(above.splitlines()) <= 6, "it is read at three in the morning, on a telephone"


@pytest.mark.parametrize("kind", [*AlertKind, *ALARMS, *RESOURCE_PAGES, *PLANNED_JOBS])
def test_each_page_has_a_command_within_its_first_screen(kind):
    first_screen = (RUNBOOKS / f"{kind}.md").read_text().splitlines()[:SCREEN_LINES]
    assert any(COMMAND.search(line) for line in first_screen)


@pytest.mark.parametrize("kind", [*AlertKind, *ALARMS, *RESOURCE_PAGES, *PLANNED_JOBS])
def test_each_alert_alarm_and_job_is_in_the_index_with_a_first_command(kind):
    [row] = [line for line in INDEX.splitlines() if line.startswith(f"| [{kind}]({kind}.md) |")]
    assert re.search(r"\| `(burstctl|aws) [^`]+` \|$", row)


def test_no_page_is_about_an_alert_or_alarm_that_is_not_there():
    assert {page.stem for page in PAGES} - {"README"} == {
        *map(str, AlertKind),
        *ALARMS,
        *RESOURCE_PAGES,
        *PLANNED_JOBS,
    }


def for_people(guard):
    """Whether a guard applies to manual flips, and whether --override works, as both pages have it."""
    return ["no" if guard in AUTOMATION_ONLY else "yes", "yes" if guard in OVERRIDABLE else "no"]


@pytest.mark.parametrize("guard", Guard)
def test_each_guard_is_explained_with_whether_it_stops_people_and_can_be_overridden(guard):
    cells = [cell.strip() for cell in rows_of(REFUSED)[guard]]
    assert len(cells) == 6
    assert cells[-2:] == for_people(guard)


@pytest.mark.parametrize(
    ("heading", "guards"),
    [
        ("Limits of AWS", NON_OVERRIDABLE),
        ("Limits of burstwatch", set(Guard) - NON_OVERRIDABLE - AUTOMATION_ONLY),
        ("Automation only", AUTOMATION_ONLY),
    ],
)
def test_each_guard_is_in_the_group_of_what_it_protects(heading, guards):
    _, _, group = REFUSED.partition(f"\n### {heading}\n")
    assert rows_of(re.split(r"\n###? ", group)[0]).keys() == guards


@pytest.mark.parametrize("guard", Guard)
def test_a_refusal_points_to_its_row_on_the_page(guard):
    page, _, row = guard_page(guard, "https://pages.example/runbooks/").partition("#")
    assert page == "https://pages.example/runbooks/FlipRefused.md"
    assert f'<a id="{row}"></a>`{guard}`' in REFUSED


@pytest.mark.parametrize("guard", Guard)
def test_each_guard_is_in_the_index(guard):
    assert [cell.strip() for cell in rows_of(INDEX)[guard][-2:]] == for_people(guard)


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    """To a file that is there, and to a heading or an anchor in it."""
    links = [link for link in LINK.findall(page.read_text()) if "://" not in link[0]]
    for name, anchor in links:
        target = page.parent / name if name else page
        assert target.exists(), f"{page.name}: {name}"
        assert not anchor or anchor in anchors_in(target.read_text()), f"{page.name}: {name}#{anchor}"


def anchors_in(text):
    """What a link into a page may lead to, as GitHub makes it of headings."""
    headings = (
        re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()) for line in text.splitlines() if line[:1] == "#"
    )
    return {heading.replace(" ", "-") for heading in headings} | set(re.findall(r'<a id="(\w+)">', text))


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_in_a_sentence_is_one(page):
    """Those in console blocks are run. A sentence may leave out what its reader knows, but invent nothing."""
    prose = re.sub(r"(?ms)^ *```.*?```$", "", page.read_text())
    for line in re.findall(r"`(burstctl [a-z][^`…|]*)`", prose):
        with suppress(click.MissingParameter, click.BadOptionUsage, click.BadParameter):
            parses_command(burstctl, shlex.split(line)[1:])


@pytest.mark.parametrize(
    "word",
    [*Level, *Mode, *UnknownReason, *OutcomeStatus, *AdviceVerdict],
    ids=lambda word: f"{type(word).__name__}-{word}",
)
def test_the_glossary_has_every_word_that_outputs_use(word):
    assert f"`{word}`" in (ROOT / "docs" / "glossary.md").read_text()


@pytest.mark.parametrize("alert", [a_digest(), *event_alerts_of_every_kind()], ids=lambda alert: alert.kind)
def test_the_command_in_an_alert_can_be_pasted(alert):
    arguments = shlex.split(alert.action or "")
    if arguments[:1] == ["burstctl"]:
        parses_command(burstctl, arguments[1:])


def parses_command(command, arguments, parent=None):
    """Parse as the command would, without running it; click raises where a word or an option is unknown."""
    context = command.make_context(command.name, list(arguments), parent=parent)
    if isinstance(command, click.Group):
        _, inner, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        parses_command(inner, rest, context)


def test_a_command_with_an_option_that_is_not_there_would_be_found():
    with pytest.raises(click.UsageError, match="--quickly"):
        parses_command(burstctl, ["flip", "vol-0123456789abcdef0", "--quickly"])
