"""docs/reference: nothing is missing from it and nothing outdated; `make reference` writes it."""

import re

import click
import pytest

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.output import DEBUG_ENV
from burstctl.context.active_policy import POLICY_ENV
from burstctl.policy.settings import list_settings
from burstctl.watch.exporter_metrics import METRICS
from burstwatch.adapters.policy.yaml_file import parse_policy
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.policy.policy import Policy
from burstwatch.core.policy.windows import SETTING_KEYS
from burstwatch.core.tag_keys import KNOWN
from burstwatch.wiring.observability import Metric
from burstwatch.wiring.settings import CLOCK, LEDGER, SLACK_WEBHOOK, TOPIC_ARN
from documents.reference.allowed_values import describe_allowed
from documents.reference.markdown import require_same_keys
from documents.reference.pages import FOLDER, build_pages
from support.cli.cli_session import every_command
from support.paths import ROOT

SETTINGS = {setting.path: setting for setting in list_settings(Policy())}
COMMANDS = [pytest.param(*case, id=" ".join(case[0])) for case in every_command() if case[0]]


def read(name):
    return (FOLDER / name).read_text()


def section(text, heading):
    """What is below a heading, up to the next one."""
    assert f"\n{heading}\n" in text
    _, _, below = text.partition(f"\n{heading}\n")
    return re.split(r"\n\n#+ ", below)[0]


def on_one_line(text):
    return " ".join(text.split())


def test_the_pages_are_current():
    assert {path.name: path.read_text() for path in FOLDER.iterdir()} == build_pages(), (
        "`make reference` writes docs/reference"
    )


def test_make_writes_them_and_lint_fails_if_they_are_not_current():
    recipe = section(
        (ROOT / "Makefile").read_text().replace("lint: setup prose build/.github-files\n", "# lint\n"),
        "# lint",
    )
    assert "-m documents.reference\n" in recipe
    assert "git diff --exit-code --stat docs/schemas docs/reference\n" in recipe


@pytest.mark.parametrize(("path", "command"), COMMANDS)
def test_each_command_has_a_section_with_its_help_options_and_examples(path, command):
    text = read("commands.md")
    level = "##" if len(path) == 1 else "###"
    own = on_one_line(section(text, f"{level} {' '.join(('burstctl', *path))}"))
    common = on_one_line(section(text, "## Common options"))
    assert on_one_line((command.help or "").replace("<", "&lt;")) in own
    for option in command.params:
        if isinstance(option, click.Option) and option.hidden:
            assert f"`{option.opts[0]}" not in own, "the help does not show it either"
        elif isinstance(option, click.Option):
            entry = rf"`(-\w, )?{re.escape(option.opts[0])}[^`]*`: {re.escape(on_one_line(option.help))}"
            named = f"`{option.opts[0]}`" in own.partition("Common options: ")[2]
            assert re.search(entry, own) or (named and re.search(entry, common))
    for example, meaning in getattr(command, "examples", ()):
        assert f"# {meaning} {example}" in own


def test_no_command_is_described_that_is_not_there():
    described = re.findall(r"^##+ burstctl (.+)$", read("commands.md"), re.MULTILINE)
    assert described == [" ".join(path) for path, _ in every_command() if path]


def test_exit_codes_and_environment_variables_are_described():
    codes = section(read("commands.md"), "## Exit codes")
    assert re.findall(r"^\| `(\d+)` \| \w", codes, re.MULTILINE) == [f"{code:d}" for code in ExitCode]
    variables = section(read("commands.md"), "## Environment variables")
    for name in (LEDGER, POLICY_ENV, CLOCK, TOPIC_ARN, SLACK_WEBHOOK, DEBUG_ENV, "NO_COLOR"):
        assert f"| `{name}` |" in variables


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_each_setting_has_its_default_range_meaning_and_effects(setting):
    own = on_one_line(section(read("policy.md"), f"### {setting.path}"))
    assert own.startswith(
        f"{setting.meaning[:1].upper()}{setting.meaning[1:]}. - Default: `{setting.default}`."
    )
    for part in (" Allowed: ", " - Change it: ", "rice"):
        assert part in own
    assert re.search(r"- Price: .+ - Guarantee: |- Price and guarantee: ", own)


def test_no_setting_is_described_that_is_not_there():
    text = read("policy.md")
    assert re.findall(r"^### (.+)$", text, re.MULTILINE) == list(SETTINGS)
    windows = section(text, "## windows")
    assert re.findall(r"^\| `(\w+)` ", windows, re.MULTILINE) == list(SETTING_KEYS)


def test_the_example_of_windows_is_a_policy():
    [example] = re.findall(r"```yaml\n(.*?)```", read("policy.md"), re.DOTALL)
    policy = parse_policy(f"version: 1\n{example}".encode(), source="example")
    assert [window.name for window in policy.windows] == ["backup", "migration"]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        # 95 % last 5,130,000 / 2,900 = 1,769 s; less tick 300, lag 300 and slack 60, 1,109 s are 18.5 min
        ("cadence.act_lead", "`1m` to `18m`"),
        # (300 + 840 s) * 2,900 / 54,000 = 61.22 %
        ("cadence.watch_below_pct", "`61.3` to below `97`"),
        ("cadence.calm_from_pct", "above `95` to `100`"),
        ("cadence.focus_at_most", "`1m` or more"),
        ("levels.critical_within", "`0s` to `29m`"),
        ("levels.refilling_for", "`3m` to `30m`"),
        ("flip.cooldown", "`0s` to `1d`"),
        ("flip.draining_reserve_pct", "`0` to `90`"),
        ("flip.spend_cap_usd_per_month", "`0` to `9999999`"),
        ("flip.fleet_cap", "`1` to `999999`"),
        ("flip_back.calm_below_pct", "above `0` to `100`"),
        ("flip_back.dwell", "`0s` to `28d`"),
        ("flip.target", "gp3, io1 or io2"),
    ],
)
def test_the_allowed_values_are_those_that_a_policy_accepts(path, allowed):
    assert describe_allowed(SETTINGS[path]) == allowed


def test_tags_alerts_and_metrics_are_all_described_and_no_other():
    assert {*re.findall(r"^\| `(burstwatch:\w+)` ", read("tags.md"), re.MULTILINE)} == KNOWN
    alerts = re.findall(
        r"^\| \[(\w+)\]\(../../runbooks/\1\.md\) \| .+ \| .+ \| `.+` \|$", read("alerts.md"), re.MULTILINE
    )
    assert alerts == list(AlertKind)
    metrics = re.findall(r"^\| `(\w+)` \| (?:Count|Seconds|Percent) \| \w", read("metrics.md"), re.MULTILINE)
    assert metrics == list(Metric)
    exported = re.findall(r"^\| `(burstwatch_\w+)` ", read("metrics.md"), re.MULTILINE)
    assert exported == [metric.full_name for metric in METRICS]


def test_a_missing_or_outdated_description_stops_the_generator():
    with pytest.raises(ValueError, match=r"^tags without a description: b$"):
        require_same_keys({"a": ""}, ["a", "b"], "tags")
    with pytest.raises(ValueError, match=r"^tags that the code does not have: a$"):
        require_same_keys({"a": "", "b": ""}, ["b"], "tags")


def test_the_index_names_every_page_and_the_schemas():
    index = read("README.md")
    assert [path.name for path in FOLDER.iterdir() if f"]({path.name})" not in index] == ["README.md"]
    assert "](../schemas/README.md)" in index


def test_the_defaults_on_the_page_are_those_of_an_empty_policy():
    rows = re.findall(r"^\| \[`([\w.]+)`\]\(#\w+\) \| `(.+?)` \|", read("policy.md"), re.MULTILINE)
    assert rows == [(path, setting.default) for path, setting in SETTINGS.items()]
