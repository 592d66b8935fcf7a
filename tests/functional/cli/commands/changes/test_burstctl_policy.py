"""burstctl policy: every fault at once, and the policy in force spelled out."""

import pytest
import yaml

from burstwatch.adapters.policy.yaml_file import parse_policy
from burstwatch.core.policy.policy import Policy

BAD = """\
version: 1
mode:
  default: auto
levels:
  warning_within: soon
  exhausted_pct: 101
alerts:
  color: red
"""


def test_every_fault_is_reported_at_once_each_with_its_line_and_path(cli):
    (cli.directory / "bad.yaml").write_text(BAD)

    result = cli.run("policy", "check", "bad.yaml")

    assert result.code == 2
    places = {line.partition(": ")[0] for line in result.out.splitlines()}
    assert places == {"bad.yaml:3", "bad.yaml:5", "bad.yaml:6", "bad.yaml:8"}
    assert "bad.yaml:5: levels.warning_within: 'soon' is not a valid duration" in result.out
    assert result.error_lines == ["error: bad.yaml has 4 faults."]


def test_faults_are_in_the_order_of_their_lines(cli):
    (cli.directory / "bad.yaml").write_text(BAD.replace("version: 1\n", "") + "version: 2\n")

    result = cli.run("policy", "check", "bad.yaml")

    places = [line.partition(": ")[0] for line in result.out.splitlines()]
    assert places == [f"bad.yaml:{line}" for line in (2, 4, 5, 7, 8)]


def test_an_unknown_key_names_the_key_that_was_probably_meant(cli):
    (cli.directory / "bad.yaml").write_text("version: 1\nmode:\n  highst: propose\nflips: {}\n")

    result = cli.run("policy", "check", "bad.yaml")

    assert result.out.splitlines() == [
        "bad.yaml:3: mode.highst: unknown key; did you mean highest? Known here: default, highest,"
        " opt_in_tag",
        "bad.yaml:4: flips: unknown key; did you mean flip? Known here: alerts, cadence, flip, flip_back,"
        " lead, levels, mode, resources, schema, telemetry, version, windows",
    ]


def test_a_tab_is_shown_in_its_line_with_a_caret_below_it(cli):
    (cli.directory / "tab.yaml").write_text("version: 1\nmode:\n\tdefault: observe\n")

    result = cli.run("policy", "check", "tab.yaml")

    assert result.code == 2
    assert result.out.splitlines() == [
        "tab.yaml:3: not YAML: while scanning for the next token found character '\\t' that cannot start any"
        " token in column 1; indent with spaces, not tabs",
        "    →default: observe",
        "    ^",
    ]


def test_the_caret_of_another_mistake_is_below_the_place_too(cli):
    (cli.directory / "bad.yaml").write_text("version: 1\nmode: {default: observe\nlevels: 1\n")

    result = cli.run("policy", "check", "bad.yaml")

    where, line, caret = result.out.splitlines()
    assert where.startswith("bad.yaml:3: not YAML: while parsing a flow mapping expected ',' or '}'")
    assert where.endswith("in column 7; fix the syntax")
    assert (line, caret.index("^")) == ("    levels: 1", 4 + 6)


def test_faults_in_json(cli):
    (cli.directory / "bad.yaml").write_text("version: 1\nalerts:\n  color: red\n")

    result = cli.run("policy", "check", "bad.yaml", "--json")

    assert result.code == 2
    assert result.document["schema"] == "burstwatch.policy-check/v1"
    (fault,) = result.document["faults"]
    assert fault.startswith("bad.yaml:3: alerts.color: unknown key")


def test_a_good_policy_is_one_line_and_what_to_run_next(cli):
    (cli.directory / "good.yaml").write_text("version: 1\n")

    result = cli.run("policy", "check", "good.yaml")

    assert (result.code, result.out) == (0, "good.yaml: OK\n")
    assert result.err.splitlines() == [
        "next: burstctl backtest --policy good.yaml",
        "      burstctl policy push good.yaml",
    ]


@pytest.mark.parametrize("types", ["[gp2, st1]", "gp2, st1", "\n    - gp2\n    - st1"])
def test_volume_types_are_a_list_of_yaml_or_separated_by_commas(cli, types):
    (cli.directory / "policy.yaml").write_text(f"version: 1\nresources:\n  ebs:\n   types: {types}\n")
    result = cli.run("policy", "show", "--json")
    assert result.document["resources"]["ebs"]["types"] == "gp2, st1"


def test_without_a_file_the_policy_in_force_is_checked(cli):
    assert cli.run("policy", "check").out.startswith("built-in defaults")
    (cli.directory / "policy.yaml").write_text(BAD)

    assert cli.run("policy", "check").code == 2


@pytest.mark.parametrize(
    ("arguments", "environment", "advice"),
    [
        (["nowhere.yaml"], {}, "give FILE another path"),
        (["--policy", "nowhere.yaml"], {}, "give --policy another path"),
        (
            [],
            {"BURSTWATCH_POLICY": "nowhere.yaml"},
            "correct the path in the environment variable",
        ),
    ],
)
def test_a_missing_file_is_a_fault_that_names_what_named_the_file(cli, arguments, environment, advice):
    cli.set(**environment)

    result = cli.run("policy", "check", *arguments)

    assert result.code == 2
    assert result.out.startswith(f"nowhere.yaml: cannot be read: No such file or directory; {advice}")


def test_a_push_names_the_missing_file_as_the_argument(cli):
    result = cli.run("policy", "push", "nowhere.yaml", "--dry-run")

    assert result.code == 2
    assert "nowhere.yaml: cannot be read: No such file or directory; give FILE another path" in result.err


def test_what_is_shown_is_a_policy_with_every_default_that_reads_back_as_itself(cli):
    (cli.directory / "policy.yaml").write_text("version: 1\nlevels:\n  warning_within: 45m\n")

    result = cli.run("policy", "show")

    assert result.code == 0
    assert result.err == "policy: policy.yaml (found here)\nnext: burstctl doctor\n"
    document = yaml.load(result.out, Loader=yaml.BaseLoader)
    assert document["levels"]["warning_within"] == "45m"
    assert document["levels"]["critical_within"] == "15m"
    (cli.directory / "again.yaml").write_text(result.out)
    assert cli.run("policy", "show", "--policy", "again.yaml").out == result.out


def test_a_comment_has_the_meaning_of_each_setting_and_marks_a_changed_one(cli):
    (cli.directory / "policy.yaml").write_text("version: 1\nlevels:\n  warning_within: 45m\n")

    lines = cli.run("policy", "show").out.splitlines()

    changed = lines.index("  warning_within: 45m")
    assert lines[changed - 1] == "  # CHANGED. duration; default 1h: warning when empty within this time"
    assert sum("CHANGED" in line for line in lines) == 1


def test_a_policy_that_comments_would_make_too_long_is_shown_without_them(cli):
    windows = "".join(f"  w{n}: {{cron: 0 22 * * *, zone: UTC, duration: 8h}}\n" for n in range(80))
    (cli.directory / "policy.yaml").write_text(f"version: 1\nwindows:\n{windows}")

    result = cli.run("policy", "show")

    assert "#" not in result.out
    assert "without comments: with them, it would exceed the 8,192 bytes of a policy" in result.err
    (cli.directory / "again.yaml").write_text(result.out)
    assert cli.run("policy", "check", "again.yaml").code == 0


WINDOWS = """\
version: 1
flip:
  change_hours: mon-fri 08:00-18:00 Europe/Berlin
flip_back:
  return: never
windows:
  release:
    from: 2026-11-20T18:00
    to: 2026-11-21T06:00
    zone: Europe/Berlin
  nightly:
    cron: 0 22 * * *
    zone: UTC
    duration: 8h
    where: "tag:Role=etcd, tag:Env"
    size_gib: 100-500
  on:
"""


def test_windows_and_change_hours_are_shown_as_they_read_back(cli):
    (cli.directory / "policy.yaml").write_text(WINDOWS)

    result = cli.run("policy", "show")

    document = yaml.load(result.out, Loader=yaml.BaseLoader)
    written = yaml.load(WINDOWS, Loader=yaml.BaseLoader)
    assert document["windows"] == written["windows"] | {"on": {}}
    assert document["flip"]["change_hours"] == written["flip"]["change_hours"]
    assert document["flip_back"]["return"] == "never"
    (cli.directory / "again.yaml").write_text(result.out)
    assert parse_policy(result.out.encode(), source="shown") == parse_policy(
        WINDOWS.encode(), source="written"
    )
    assert cli.run("policy", "show", "--policy", "again.yaml").out == result.out


def test_the_faults_of_windows_have_their_lines_too(cli):
    faulty = WINDOWS.replace("0 22 * * *", "0 25 * * *").replace("return: never", "return: no")
    (cli.directory / "bad.yaml").write_text(faulty + "    where: [ci]\n    colour: red\n")

    result = cli.run("policy", "check", "bad.yaml")

    assert result.code == 2
    lines = faulty.splitlines()
    where = len(lines) + 1
    assert {tuple(line.split(": ")[:2]) for line in result.out.splitlines()} == {
        (f"bad.yaml:{lines.index('  return: no') + 1}", "flip_back.return"),
        (f"bad.yaml:{lines.index('    cron: 0 25 * * *') + 1}", "windows.nightly.cron"),
        (f"bad.yaml:{where}", "windows.on.where"),
        (f"bad.yaml:{where + 1}", "windows.on.colour"),
    }


def test_the_option_comes_before_the_environment_and_that_before_the_file_here(cli):
    for name, minutes in (("policy", 31), ("env", 32), ("option", 33)):
        (cli.directory / f"{name}.yaml").write_text(f"version: 1\nlevels:\n  warning_within: {minutes}m\n")

    def warning_within(*arguments):
        return cli.run(*arguments, "policy", "show", "--json").document["levels"]["warning_within"]

    assert warning_within() == "31m"
    cli.set(BURSTWATCH_POLICY="env.yaml")
    assert warning_within() == "32m"
    assert warning_within("--policy", "option.yaml") == "33m"


def test_what_is_shown_as_json_can_be_checked_again(cli):
    (cli.directory / "shown.json").write_text(cli.run("policy", "show", "--json").out)

    assert cli.run("policy", "check", "shown.json").code == 0


def test_a_document_of_another_schema_is_not_a_policy(cli):
    (cli.directory / "alert.yaml").write_text("version: 1\nschema: burstwatch.alert/v1\n")

    result = cli.run("policy", "check", "alert.yaml")

    assert result.code == 2
    assert "write burstwatch.policy/v1, or leave it out" in result.err + result.out


def test_the_defaults_are_shown_as_json(cli):
    expected = {"schema": "burstwatch.policy/v1", **Policy().to_mapping()}
    assert cli.run("policy", "show", "--json").document == expected


def test_a_bad_policy_in_force_is_not_shown_but_rejected(cli):
    (cli.directory / "policy.yaml").write_text(BAD)

    result = cli.run("policy", "show")

    assert result.code == 2
    assert result.out == ""
    assert "error: the policy is rejected:" in result.err


ALIASES = "version: 1\na0: &a0 {x: 1}\n" + "\n".join(
    f"a{n}: &a{n} {{{', '.join(f'k{k}: *a{n - 1}' for k in range(40))}}}" for n in range(1, 8)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 4_000, "nested too deeply to be read"),
        (ALIASES, "more than 1,000 settings, with what aliases repeat"),
        ('version: 1\n"\\e[2J\\u202e": 1\n', "?[2J?: unknown key"),
        (f"version: 1\nmode: {{default: {'x' * 7_000}}}\n", "is not a mode; write observe, propose or auto"),
    ],
)
def test_a_malicious_document_is_refused_with_a_short_message(cli, text, message):
    (cli.directory / "bad.yaml").write_text(text)

    result = cli.run("policy", "check", "bad.yaml")

    assert result.code == 2
    assert message in result.out
    assert len(result.out) < 2_000
    assert "\x1b" not in result.out


def test_of_very_many_faults_the_first_are_reported_and_the_rest_is_counted(cli):
    (cli.directory / "bad.yaml").write_text("version: 1\n" + "".join(f"k{n}: 1\n" for n in range(900)))

    result = cli.run("policy", "check", "bad.yaml")

    assert "bad.yaml: 850 more faults; fix these first" in result.out.splitlines()
