"""burstctl policy: every fault at once, and the policy in force spelled out."""

import pytest
import yaml
from operators_desk import OperatorsDesk

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


@pytest.fixture
def desk(tmp_path, monkeypatch, capsys):
    return OperatorsDesk(tmp_path, monkeypatch, capsys)


def test_every_fault_is_told_at_once_each_with_its_line_and_path(desk):
    (desk.directory / "bad.yaml").write_text(BAD)

    ran = desk.run("policy", "check", "bad.yaml")

    assert ran.code == 2
    places = {line.partition(": ")[0] for line in ran.out.splitlines()}
    assert places == {"bad.yaml:3", "bad.yaml:5", "bad.yaml:6", "bad.yaml:8"}
    assert "bad.yaml:5: levels.warning_within: 'soon' is not a span" in ran.out
    assert ran.complaints == ["burstctl: bad.yaml has 4 faults"]


def test_faults_in_json(desk):
    (desk.directory / "bad.yaml").write_text("version: 1\nalerts:\n  color: red\n")

    ran = desk.run("policy", "check", "bad.yaml", "--json")

    assert ran.code == 2
    assert ran.document["schema"] == "burstwatch.policy-check/v1"
    (fault,) = ran.document["faults"]
    assert fault.startswith("bad.yaml:3: alerts.color: unknown key")


def test_a_good_policy_is_one_line(desk):
    (desk.directory / "good.yaml").write_text("version: 1\n")

    ran = desk.run("policy", "check", "good.yaml")

    assert (ran.code, ran.out, ran.err) == (0, "good.yaml: OK\n", "")


def test_without_a_file_the_policy_in_force_is_checked(desk):
    assert desk.run("policy", "check").out.startswith("built-in defaults")
    (desk.directory / "policy.yaml").write_text(BAD)

    assert desk.run("policy", "check").code == 2


def test_a_file_that_cannot_be_read_is_a_fault(desk):
    ran = desk.run("policy", "check", "nowhere.yaml")

    assert ran.code == 2
    assert "nowhere.yaml: cannot be read: No such file or directory" in ran.out


def test_what_is_shown_is_a_policy_with_every_default_that_reads_back_as_itself(desk):
    (desk.directory / "policy.yaml").write_text("version: 1\nlevels:\n  warning_within: 45m\n")

    ran = desk.run("policy", "show")

    assert ran.code == 0
    assert ran.err == "policy: policy.yaml (found here)\n"
    shown = yaml.load(ran.out, Loader=yaml.BaseLoader)
    assert shown["levels"]["warning_within"] == "45m"
    assert shown["levels"]["critical_within"] == "15m"
    (desk.directory / "again.yaml").write_text(ran.out)
    assert desk.run("policy", "show", "--policy", "again.yaml").out == ran.out


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


def test_windows_and_change_hours_are_shown_as_they_read_back(desk):
    (desk.directory / "policy.yaml").write_text(WINDOWS)

    ran = desk.run("policy", "show")

    shown = yaml.load(ran.out, Loader=yaml.BaseLoader)
    written = yaml.load(WINDOWS, Loader=yaml.BaseLoader)
    assert shown["windows"] == written["windows"] | {"on": {}}
    assert shown["flip"]["change_hours"] == written["flip"]["change_hours"]
    assert shown["flip_back"]["return"] == "never"
    (desk.directory / "again.yaml").write_text(ran.out)
    assert parse_policy(ran.out.encode(), source="shown") == parse_policy(WINDOWS.encode(), source="written")
    assert desk.run("policy", "show", "--policy", "again.yaml").out == ran.out


def test_the_faults_of_windows_have_their_lines_too(desk):
    faulty = WINDOWS.replace("0 22 * * *", "0 25 * * *").replace("return: never", "return: no")
    (desk.directory / "bad.yaml").write_text(faulty + "    where: [ci]\n    colour: red\n")

    ran = desk.run("policy", "check", "bad.yaml")

    assert ran.code == 2
    lines = faulty.splitlines()
    where = len(lines) + 1
    assert {tuple(line.split(": ")[:2]) for line in ran.out.splitlines()} == {
        (f"bad.yaml:{lines.index('  return: no') + 1}", "flip_back.return"),
        (f"bad.yaml:{lines.index('    cron: 0 25 * * *') + 1}", "windows.nightly.cron"),
        (f"bad.yaml:{where}", "windows.on.where"),
        (f"bad.yaml:{where + 1}", "windows.on.colour"),
    }


def test_the_option_comes_before_the_environment_and_that_before_the_file_here(desk):
    for name, minutes in (("policy", 31), ("env", 32), ("option", 33)):
        (desk.directory / f"{name}.yaml").write_text(f"version: 1\nlevels:\n  warning_within: {minutes}m\n")

    def warning_within(*arguments):
        return desk.run(*arguments, "policy", "show", "--json").document["levels"]["warning_within"]

    assert warning_within() == "31m"
    desk.set(BURSTWATCH_POLICY="env.yaml")
    assert warning_within() == "32m"
    assert warning_within("--policy", "option.yaml") == "33m"


def test_what_is_shown_as_json_can_be_checked_again(desk):
    (desk.directory / "shown.json").write_text(desk.run("policy", "show", "--json").out)

    assert desk.run("policy", "check", "shown.json").code == 0


def test_a_document_of_another_schema_is_no_policy(desk):
    (desk.directory / "alert.yaml").write_text("version: 1\nschema: burstwatch.alert/v1\n")

    ran = desk.run("policy", "check", "alert.yaml")

    assert ran.code == 2
    assert "write burstwatch.policy/v1, or leave it out" in ran.err + ran.out


def test_the_defaults_are_shown_as_json(desk):
    shown = {"schema": "burstwatch.policy/v1", **Policy().to_mapping()}
    assert desk.run("policy", "show", "--json").document == shown


def test_a_bad_policy_in_force_is_not_shown_but_rejected(desk):
    (desk.directory / "policy.yaml").write_text(BAD)

    ran = desk.run("policy", "show")

    assert ran.code == 2
    assert ran.out == ""
    assert "burstctl: the policy is rejected:" in ran.err


ALIASES = "version: 1\na0: &a0 {x: 1}\n" + "\n".join(
    f"a{n}: &a{n} {{{', '.join(f'k{k}: *a{n - 1}' for k in range(40))}}}" for n in range(1, 8)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[" * 4_000, "nested too deeply to be read"),
        (ALIASES, "more than 1,000 settings, with what aliases repeat"),
        ('version: 1\n"\\e[2J\\u202e": 1\n', "?[2J?: unknown key"),
        (f"version: 1\nmode: {{default: {'x' * 7_000}}}\n", "is not a mode; write observe, propose or auto"),
    ],
)
def test_a_document_made_to_hurt_is_refused_in_a_short_sentence(desk, text, says):
    (desk.directory / "bad.yaml").write_text(text)

    ran = desk.run("policy", "check", "bad.yaml")

    assert ran.code == 2
    assert says in ran.out
    assert len(ran.out) < 2_000
    assert "\x1b" not in ran.out


def test_of_very_many_faults_the_first_are_told_and_the_rest_is_counted(desk):
    (desk.directory / "bad.yaml").write_text("version: 1\n" + "".join(f"k{n}: 1\n" for n in range(900)))

    ran = desk.run("policy", "check", "bad.yaml")

    assert "bad.yaml: 850 more faults; mend these first" in ran.out.splitlines()
