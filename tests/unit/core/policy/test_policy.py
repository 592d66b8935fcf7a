from dataclasses import fields, replace
from datetime import timedelta
from itertools import chain

import pytest

from burstwatch.core.durations import format_duration_literal, parse_duration
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.sizing import ReturnMode
from burstwatch.core.parsing import Fault
from burstwatch.core.policy.change_hours import parse_change_hours
from burstwatch.core.policy.policy import (
    ActAt,
    AlertPolicy,
    CadencePolicy,
    FlipBackPolicy,
    FlipPolicy,
    LevelPolicy,
    Mode,
    ModePolicy,
    Policy,
    PolicyError,
    QuotaRule,
    TelemetryPolicy,
)
from burstwatch.core.policy.windows import LeadPolicy, parse_windows

VERSION = {"version": "1"}
SECTIONS = {
    "mode": ModePolicy,
    "cadence": CadencePolicy,
    "telemetry": TelemetryPolicy,
    "levels": LevelPolicy,
    "alerts": AlertPolicy,
    "flip": FlipPolicy,
    "flip_back": FlipBackPolicy,
    "lead": LeadPolicy,
}
SECTION_OF = {
    setting.metadata.get("key") or setting.name: name
    for name, section in SECTIONS.items()
    for setting in fields(section)
}


def minutes(number: int) -> timedelta:
    return timedelta(minutes=number)


def read(section: str, **settings) -> Policy:
    return Policy.from_mapping(VERSION | {section: settings})


def faults_of(document) -> dict[str, str]:
    """Every fault of a document, by path."""
    with pytest.raises(PolicyError) as error:
        Policy.from_mapping(document)
    assert len(error.value.faults) == len({fault.path for fault in error.value.faults}), "one fault a path"
    return {fault.path: fault.message for fault in error.value.faults}


# spans


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0s", 0), ("45s", 45), ("15m", 900), ("90m", 5_400), ("6h", 21_600), ("2d", 172_800)],
)
def test_a_duration_is_a_whole_number_and_a_unit(text, seconds):
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "m",
        "15",
        "15 m",
        " 15m",
        "15m ",
        "15M",
        "15min",
        "1.5h",
        "-5m",
        "+5m",
        "1h30m",
        "15m\n",
        "1e3s",
        "1234567890s",
    ],
)
def test_anything_else_is_not_a_duration(text):
    with pytest.raises(
        ValueError, match="is not a valid duration; write a whole number and s, m, h or d, such as 15m"
    ):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1, "1s"), (60, "1m"), (90, "90s"), (5_400, "90m"), (7_200, "2h"), (90_000, "25h")],
)
def test_a_duration_is_written_in_its_largest_whole_unit(seconds, text):
    assert format_duration_literal(timedelta(seconds=seconds)) == text
    assert parse_duration(text) == timedelta(seconds=seconds)


# every setting, as the document calls it

SETTINGS = [
    ("mode", "default", "observe", Mode.OBSERVE),
    ("mode", "highest", "propose", Mode.PROPOSE),
    ("mode", "opt_in_tag", "team:flips=Yes please", ("team:flips", "Yes please")),
    ("cadence", "watch_below_pct", "96.5", 96.5),
    ("cadence", "calm_from_pct", "99", 99.0),
    ("cadence", "metric_lag", "3m", minutes(3)),
    ("cadence", "tick_slack", "90s", timedelta(seconds=90)),
    ("cadence", "act_lead", "10m", minutes(10)),
    ("cadence", "sweep_tick", "10m", minutes(10)),
    ("cadence", "sweep_at_most", "2h", minutes(120)),
    ("cadence", "focus_at_most", "2m", minutes(2)),
    ("telemetry", "too_new", "20m", minutes(20)),
    ("telemetry", "gap_after", "1h", minutes(60)),
    ("levels", "exhausted_pct", "0.5", 0.5),
    ("levels", "exhausted_leave_pct", "7.25", 7.25),
    ("levels", "critical_within", "20m", minutes(20)),
    ("levels", "critical_leave", "45m", minutes(45)),
    ("levels", "warning_within", "75m", minutes(75)),
    ("levels", "warning_leave", "2h", minutes(120)),
    ("levels", "refilling_for", "15m", minutes(15)),
    ("alerts", "remind_every", "6h", minutes(360)),
    ("alerts", "digest_above", "25", 25),
    ("alerts", "runbooks_url", "https://wiki.example.com/runbooks", "https://wiki.example.com/runbooks"),
    ("flip", "target", "io2", VolumeType.IO2),
    ("flip", "headroom_pct", "12.5", 12.5),
    ("flip", "act_at", "warning", ActAt.WARNING),
    ("flip", "cooldown", "2h", minutes(120)),
    ("flip", "quota_rule", "six_hours", QuotaRule.SIX_HOURS),
    ("flip", "fleet_cap", "7", 7),
    ("flip", "spend_cap_usd_per_month", "250.75", 250.75),
    ("flip", "draining_reserve_pct", "40", 40.0),
    ("flip", "tag_cap_usd_per_month", "99.5", 99.5),
    (
        "flip",
        "change_hours",
        "mon-fri 08:00-18:00 Europe/Berlin",
        parse_change_hours("mon-fri 08:00-18:00 Europe/Berlin"),
    ),
    ("flip", "io1_iops_limit", "999999999", 999_999_999),
    ("flip", "io2_iops_limit", "60000", 60_000),
    ("flip_back", "return", "never", ReturnMode.NEVER),
    ("flip_back", "calm_for", "45m", minutes(45)),
    ("flip_back", "calm_below_pct", "80", 80.0),
    ("flip_back", "dwell", "3h", minutes(180)),
    ("lead", "least", "20m", minutes(20)),
    ("lead", "per_tib", "3h", minutes(180)),
    ("lead", "reserve", "5m", minutes(5)),
    ("lead", "at_most", "12h", minutes(720)),
]
ATTRIBUTES = {
    "return": "returns",
    "spend_cap_usd_per_month": "spend_cap_usd",
    "tag_cap_usd_per_month": "tag_cap_usd",
}
"""What an attribute is called where that is not its name in the document."""


@pytest.mark.parametrize(("section", "setting", "text", "value"), SETTINGS)
def test_every_setting_is_read_and_written(section, setting, text, value):
    policy = read(section, **{setting: text})
    attribute = ATTRIBUTES.get(setting, setting)
    assert getattr(getattr(policy, section), attribute) == value
    assert policy.to_mapping()[section][setting] == text
    assert Policy.from_mapping(policy.to_mapping()) == policy
    # Everything else is as it was.
    default = getattr(Policy(), section)
    assert replace(getattr(policy, section), **{attribute: getattr(default, attribute)}) == default


def test_every_setting_is_in_the_table_above():
    assert [(section, ATTRIBUTES.get(setting, setting)) for section, setting, _, _ in SETTINGS] == [
        (name, setting.name) for name, section in SECTIONS.items() for setting in fields(section)
    ]
    assert {*SECTIONS, "resources", "windows"} == {section.name for section in fields(Policy)}


def test_every_setting_describes_its_purpose():
    assert all(s.metadata["says"] for section in SECTIONS.values() for s in fields(section))


@pytest.mark.parametrize(
    "document",
    [
        VERSION,
        VERSION | {"cadence": {}},
        # A section without settings is empty text in YAML.
        VERSION | {"cadence": "", "levels": None, "flip": "", "windows": ""},
        VERSION | {"windows": {}},
    ],
)
def test_what_is_left_out_has_its_default(document):
    assert Policy.from_mapping(document) == Policy()


def test_the_default_policy_comes_back_from_its_own_document():
    document = Policy().to_mapping()
    assert Policy.from_mapping(document) == Policy()
    sections = document | document.pop("resources")
    scalars = chain.from_iterable(settings.values() for settings in sections.values() if settings != "1")
    assert all(isinstance(scalar, str) for scalar in scalars)


def test_the_defaults_are_what_is_documented():
    assert Policy().to_mapping() == {
        "version": "1",
        "mode": {"default": "propose", "highest": "auto", "opt_in_tag": "burstwatch:mode=auto"},
        "cadence": {
            "watch_below_pct": "95",
            "calm_from_pct": "97",
            "metric_lag": "5m",
            "tick_slack": "1m",
            "act_lead": "8m",
            "sweep_tick": "5m",
            "sweep_at_most": "1h",
            "focus_at_most": "5m",
        },
        "telemetry": {"too_new": "15m", "gap_after": "30m"},
        "levels": {
            "exhausted_pct": "1",
            "exhausted_leave_pct": "5",
            "critical_within": "15m",
            "critical_leave": "30m",
            "warning_within": "1h",
            "warning_leave": "90m",
            "refilling_for": "10m",
        },
        "alerts": {"remind_every": "2h", "digest_above": "10", "runbooks_url": "runbooks"},
        "flip": {
            "target": "gp3",
            "headroom_pct": "25",
            "act_at": "auto",
            "cooldown": "30m",
            "quota_rule": "four_per_day",
            "fleet_cap": "50",
            "spend_cap_usd_per_month": "1000",
            "draining_reserve_pct": "25",
            "tag_cap_usd_per_month": "250",
            "change_hours": "always",
            "io1_iops_limit": "300000",
            "io2_iops_limit": "100000",
        },
        "flip_back": {"return": "auto", "calm_for": "30m", "calm_below_pct": "50", "dwell": "1h"},
        "lead": {"least": "15m", "per_tib": "6h", "reserve": "15m", "at_most": "1d"},
        "resources": {
            "ebs": {"watch": "true", "types": "gp2", "act_lead": "30m"},
            "instance": {
                "watch": "false",
                "metric_lag": "10m",
                "act_lead": "30m",
                "critical_within": "15m",
                "warning_within": "1h",
            },
            "efs": {
                "watch": "false",
                "metric_lag": "15m",
                "act_lead": "30m",
                "critical_within": "3h",
                "warning_within": "12h",
            },
            "rds": {"watch": "false", "act_lead": "30m"},
        },
        "windows": {},
    }


@pytest.mark.parametrize("reads_as_a_number", [95, 95.0, 96.5])
def test_a_number_is_read_like_its_text(reads_as_a_number):
    policy = read("cadence", watch_below_pct=reads_as_a_number)
    assert policy == read("cadence", watch_below_pct=str(reads_as_a_number))


# what is refused

# A tag may hold nearly anything, and so may an address.
PARSED = [
    (section, setting) for section, setting, _, _ in SETTINGS if setting not in {"opt_in_tag", "runbooks_url"}
]
HOSTILE_TEXT = [
    *(
        "",
        " ",
        "-5",
        "-5m",
        "+5",
        "5 m",
        "5M",
        "1e3",
        "0x10",
        "1_000",
        "nan",
        "NaN",
        "inf",
        "Infinity",
        "22:00",
    ),
    *("9" * 30, "9" * 30 + "m", "5m\n", "95\n", "5m\x00", "\u00bd", "\u00b2", "\u202e5m", "!!python/object"),
]
HOSTILE_VALUES = [
    *(True, False, None, -5, float("nan"), float("inf"), 10**30),
    *([], ["5m"], [[]], {}, {"5m": "5m"}, ("5m",), b"5m"),
]


@pytest.mark.parametrize("value", [*HOSTILE_TEXT, *HOSTILE_VALUES], ids=repr)
def test_a_value_of_the_wrong_kind_is_a_fault_wherever_it_is(value):
    document: dict = dict(VERSION)
    for section, setting in PARSED:
        document.setdefault(section, {})[setting] = value
    assert list(faults_of(document)) == [f"{section}.{setting}" for section, setting in PARSED]


@pytest.mark.parametrize(
    ("setting", "text", "message"),
    [
        ("default", "on", "'on' is not a mode; write observe, propose or auto"),
        ("highest", "Auto", "'Auto' is not a mode; write observe, propose or auto"),
        (
            "opt_in_tag",
            "a=${ec2:ResourceTag/a}",
            "'a=${ec2:ResourceTag/a}' has a $, with which an IAM variable begins; write a tag without one",
        ),
        ("opt_in_tag", "auto", "'auto' is not a tag; write key=value, such as burstwatch:mode=auto"),
        (
            "metric_lag",
            "5",
            "'5' is not a valid duration; write a whole number and s, m, h or d, such as 15m",
        ),
        ("watch_below_pct", "95%", "'95%' is not a percentage; write a number from 0 to 100, without a sign"),
        (
            "exhausted_pct",
            "100.1",
            "'100.1' is not a percentage; write a number from 0 to 100, without a sign",
        ),
        ("digest_above", "0", "'0' is not a count; write a whole number from 1 to 999999"),
        ("digest_above", "2.5", "'2.5' is not a count; write a whole number from 1 to 999999"),
        ("digest_above", "1000000", "'1000000' is not a count; write a whole number from 1 to 999999"),
        ("target", "gp2", "'gp2' is not a target; write gp3, io1 or io2"),
        ("act_at", "watch", "'watch' is not a level to act at; write auto, critical or warning"),
        ("quota_rule", "none", "'none' is not a quota rule; write four_per_day or six_hours"),
        ("return", "yes", "'yes' is not a way to return; write auto, always or never"),
        (
            "spend_cap_usd_per_month",
            "$100",
            "'$100' is not an amount of dollars; write a number from 0 to 9999999, without a sign",
        ),
        (
            "tag_cap_usd_per_month",
            "none",
            "'none' is not an amount of dollars; write a number from 0 to 9999999, without a sign",
        ),
        (
            "draining_reserve_pct",
            "101",
            "'101' is not a percentage; write a number from 0 to 100, without a sign",
        ),
        (
            "change_hours",
            "08:00-18:00",
            "'08:00-18:00' are not valid change hours; write always, or days, hours and time zone such as"
            " mon-fri 08:00-18:00 Europe/Berlin",
        ),
        (
            "io1_iops_limit",
            "1000000000",
            "'1000000000' is not a count; write a whole number from 1 to 999999999",
        ),
        (
            "runbooks_url",
            "a b",
            "'a b' is not a valid address for links; write an https:// address or a relative path",
        ),
    ],
)
def test_a_fault_names_the_value_and_the_next_step(setting, text, message):
    section = SECTION_OF[setting]
    assert faults_of(VERSION | {section: {setting: text}}) == {f"{section}.{setting}": message}


@pytest.mark.parametrize("text", ["", "=auto", " key=auto", "a=b=c", "k" * 129 + "=v", "k=" + "v" * 257])
def test_an_invalid_tag_is_refused(text):
    assert list(faults_of(VERSION | {"mode": {"opt_in_tag": text}})) == ["mode.opt_in_tag"]


@pytest.mark.parametrize("text", ["k=", "k" * 128 + "=" + "v" * 256, "team: a/b=Ja, bitte"])
def test_every_valid_ec2_tag_is_accepted(text):
    key, _, value = text.partition("=")
    assert read("mode", opt_in_tag=text).mode.opt_in_tag == (key, value)


@pytest.mark.parametrize(
    "text", ["https://docs.example.com/runbooks/{page}.html", "pages/{page}", "runbooks"]
)
def test_the_address_of_runbooks_may_have_a_place_for_the_page(text):
    assert read("alerts", runbooks_url=text).alerts.runbooks_url == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "https://a b",
        "pages?x=<y>",
        "a\nb",
        "x" * 300,
        "https://a/{name}",
        "https://a/{page}/{page}",
        "https://{page}",
        "https://a/{page} b",
    ],
)
def test_an_invalid_runbook_base_is_refused(text):
    assert list(faults_of(VERSION | {"alerts": {"runbooks_url": text}})) == ["alerts.runbooks_url"]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "is missing; this burstwatch reads version: 1"),
        ({"version": "2"}, "is '2'; this burstwatch reads version: 1"),
        ({"version": "1.0"}, "is '1.0'; this burstwatch reads version: 1"),
        ({"version": []}, "is []; this burstwatch reads version: 1"),
    ],
)
def test_a_document_names_its_version(document, message):
    assert faults_of(document) == {"version": message}


@pytest.mark.parametrize("value", ["5m", [], ["metric_lag"], 7, True])
@pytest.mark.parametrize("section", ["cadence", "windows"])
def test_a_section_is_a_mapping(section, value):
    faults = faults_of(VERSION | {section: value})
    assert faults == {section: f"{value!r} is not a section; indent its settings below it"}


def test_unknown_keys_are_faults_that_name_the_known_ones():
    faults = faults_of(VERSION | {"cadance": {}, "alerts": {"remind": "2h", "digest_above": "9"}})
    assert faults == {
        "cadance": "unknown key; did you mean cadence? Known here: alerts, cadence, flip, flip_back, lead,"
        " levels, mode, resources, schema, telemetry, version, windows",
        "alerts.remind": "unknown key; did you mean remind_every? Known here: digest_above,"
        " remind_every, runbooks_url",
    }


def test_a_policy_may_name_its_schema_and_no_other():
    assert Policy.from_mapping({"version": "1", "schema": "burstwatch.policy/v1"}) == Policy()
    assert faults_of({"version": "1", "schema": "burstwatch.policy/v2"}) == {
        "schema": "is 'burstwatch.policy/v2'; write burstwatch.policy/v1, or leave it out"
    }


def test_every_fault_is_reported_at_once():
    faults = faults_of(
        {
            "version": "7",
            "typo": "1",
            "mode": {"default": "auto", "highest": "all"},
            "cadence": {"metric_lag": "5", "sweep_tick": "7m", "lag": "1m"},
            "levels": {"warning_within": "10m", "exhausted_pct": "-1"},
            "alerts": ["remind_every"],
            "flip": {"cooldown": "2d", "spend_cap_usd": "1"},
            "flip_back": {"returns": "auto"},
            "lead": {"reserve": "1d"},
            "windows": {"deploy": {"cron": "0 25 * * *", "zone": "UTC", "duration": "1h"}, "night": "22:00"},
        }
    )
    assert set(faults) == {
        "version",
        "typo",
        "mode.default",
        "mode.highest",
        "cadence.metric_lag",
        "cadence.sweep_tick",
        "cadence.lag",
        "levels.warning_within",
        "levels.exhausted_pct",
        "alerts",
        "flip.cooldown",
        "flip.spend_cap_usd",
        "flip_back.returns",
        "lead.at_most",
        "windows.deploy.cron",
        "windows.night",
    }


def test_the_error_lists_all_faults_in_one_line():
    with pytest.raises(PolicyError) as error:
        Policy.from_mapping(VERSION | {"a": "", "levels": {"exhausted_pct": "x"}})
    assert str(error.value).startswith("a: unknown key; known here: ")
    assert "; levels.exhausted_pct: 'x' is not a percentage" in str(error.value)
    assert str(Fault(path="", message="no YAML")) == "no YAML"


# settings that contradict each other


@pytest.mark.parametrize(
    ("settings", "path", "message"),
    [
        ({"default": "auto"}, "mode.default",
         "'auto' would act on untagged volumes; write observe or propose and opt in by tag"),
        ({"metric_lag": "59s"}, "cadence.metric_lag",
         "59s is too short; at least 1m, the minute being measured"),
        ({"tick_slack": "0s"}, "cadence.tick_slack",
         "0d is too short; at least 1m, the next focus tick takes over a lost one"),
        ({"act_lead": "30s"}, "cadence.act_lead", "30s is too short; at least 1m"),
        ({"focus_at_most": "30s"}, "cadence.focus_at_most", "30s is too short; at least 1m, the focus tick"),
        ({"sweep_tick": "7m"}, "cadence.sweep_tick",
         "7m must be whole minutes that divide a day, such as 5m"),
        ({"sweep_tick": "0s"}, "cadence.sweep_tick",
         "0d must be whole minutes that divide a day, such as 5m"),
        ({"sweep_tick": "90s"}, "cadence.sweep_tick",
         "90s must be whole minutes that divide a day, such as 5m"),
        ({"sweep_at_most": "4m"}, "cadence.sweep_at_most", "4m must be from sweep_tick 5m to 1d"),
        ({"sweep_at_most": "25h"}, "cadence.sweep_at_most", "25h must be from sweep_tick 5m to 1d"),
        ({"calm_from_pct": "95"}, "cadence.calm_from_pct", "95 must be above watch_below_pct 95"),
        ({"too_new": "31m"}, "telemetry.gap_after", "30m must be from too_new 31m to 1d"),
        ({"gap_after": "14m"}, "telemetry.gap_after", "14m must be from too_new 15m to 1d"),
        ({"gap_after": "25h"}, "telemetry.gap_after", "25h must be from too_new 15m to 1d"),
        ({"exhausted_leave_pct": "1"}, "levels.exhausted_leave_pct", "1 must be above exhausted_pct 1"),
        ({"critical_leave": "15m"}, "levels.critical_leave", "15m must be above critical_within 15m"),
        ({"warning_leave": "60m"}, "levels.warning_leave", "1h must be above warning_within 1h"),
        ({"warning_within": "15m"}, "levels.warning_within", "15m must be above critical_within 15m"),
        ({"refilling_for": "2m"}, "levels.refilling_for",
         "2m must be from 3m to 30m, as far as a sweep's samples reach"),
        ({"refilling_for": "31m"}, "levels.refilling_for",
         "31m must be from 3m to 30m, as far as a sweep's samples reach"),
        ({"remind_every": "4m"}, "alerts.remind_every", "4m is too often; at least 5m"),
        ({"cooldown": "25h"}, "flip.cooldown", "25h must be from 0d to 1d"),
        ({"io1_iops_limit": "99", "target": "io1"}, "flip.io1_iops_limit",
         "99 is below the 100 that any io1 takes, so nothing could be flipped"),
        ({"io2_iops_limit": "1", "target": "io2"}, "flip.io2_iops_limit",
         "1 is below the 100 that any io2 takes, so nothing could be flipped"),
        ({"draining_reserve_pct": "100"}, "flip.draining_reserve_pct",
         "100 is above 90, which leaves windows and critical volumes no room in the caps; take 0 to 90"),
        ({"calm_for": "4m"}, "flip_back.calm_for", "4m must be from 5m to 1d"),
        ({"calm_for": "25h"}, "flip_back.calm_for", "25h must be from 5m to 1d"),
        ({"calm_below_pct": "0"}, "flip_back.calm_below_pct",
         "0 must be above 0: no demand is below nothing, so no volume would return"),
        ({"dwell": "29d"}, "flip_back.dwell", "29d must be from 0d to 28d"),
        ({"at_most": "30m"}, "lead.at_most",
         "30m must be above reserve 15m + least 15m = 30m, and at most 7d"),
    ],
)  # fmt: skip
def test_settings_that_contradict_each_other_are_refused(settings, path, message):
    assert faults_of(VERSION | {SECTION_OF[next(iter(settings))]: settings}) == {path: message}


@pytest.mark.parametrize(
    "settings",
    [
        {"metric_lag": "1m"},
        {"act_lead": "1m"},
        {"focus_at_most": "1m"},
        {"sweep_tick": "1m"},
        {"sweep_at_most": "5m"},
        {"sweep_at_most": "1d"},
        {"gap_after": "15m"},
        {"gap_after": "1d"},
        {"too_new": "5m"},
        {"exhausted_pct": "0"},
        {"draining_reserve_pct": "0"},
        {"draining_reserve_pct": "90"},
        {"exhausted_leave_pct": "95"},
        {"watch_below_pct": "96.9"},
        {"refilling_for": "3m"},
        {"refilling_for": "30m"},
        {"remind_every": "5m"},
        {"digest_above": "1"},
        {"cooldown": "0d"},
        {"cooldown": "1d"},
        {"headroom_pct": "0"},
        {"spend_cap_usd_per_month": "0"},
        {"spend_cap_usd_per_month": "9999999"},
        {"io1_iops_limit": "99"},
        {"calm_for": "5m"},
        {"calm_for": "1d"},
        {"calm_below_pct": "0.0001"},
        {"dwell": "0d"},
        {"dwell": "28d"},
        {"at_most": "31m"},
        {"at_most": "7d"},
    ],
)
def test_a_setting_may_go_to_its_limit(settings):
    [(setting, text)] = settings.items()
    section = SECTION_OF[setting]
    assert read(section, **settings).to_mapping()[section][setting] == text


def test_a_quota_of_the_least_that_a_type_takes_lets_one_volume_be_flipped():
    flip = read("flip", target="io1", io1_iops_limit="100").flip
    assert flip.io1_iops_limit == 100


def test_no_datapoint_can_be_there_before_cloudwatch_shows_it():
    document = VERSION | {"telemetry": {"too_new": "4m"}}
    assert faults_of(document) == {
        "telemetry.too_new": "4m must be at least cadence.metric_lag 5m: no datapoint can be there sooner"
    }


def test_a_volume_out_of_exhaustion_is_not_out_of_the_watch():
    document = VERSION | {"levels": {"exhausted_leave_pct": "96"}}
    assert faults_of(document) == {
        "levels.exhausted_leave_pct": "96 must not be above cadence.watch_below_pct 95"
    }


@pytest.mark.parametrize(
    ("settings", "needed", "available"),
    [
        # 5 + 5 + 1 + 8 min = 1,140 s. 60 % of 5,400,000 is 3,240,000 credits: / 2,900 = 1,117 s.
        # It takes 1,140 x 2,900 / 54,000 = 61.22 %, so 61.3 % do.
        (
            {"watch_below_pct": "60"},
            "sweep_tick 5m + metric_lag 5m + tick_slack 1m + act_lead 8m = 1140 s",
            "at 60 % can be empty after 3240000 credits / (3000 - 100) = 1117 s; raise"
            " watch_below_pct to 61.",
        ),
        # 30 + 5 + 1 + 8 min = 2,640 s: no balance lasts it. 2,640 - 1,768.97 = 871.03, so 872 s less do.
        (
            {"sweep_tick": "30m"},
            "sweep_tick 30m + metric_lag 5m + tick_slack 1m + act_lead 8m = 2640 s",
            "at 95 % can be empty after 5130000 credits / (3000 - 100) = 1769 s; shorten them by 872s in all",
        ),
    ],
)
def test_a_policy_that_breaks_the_poll_rule_is_shown_the_arithmetic(settings, needed, available):
    [(path, message)] = faults_of(VERSION | {"cadence": settings}).items()
    assert path == "cadence"
    assert message.startswith(f"{needed}. But a volume of up to 33 GiB {available}")


def test_a_policy_that_just_keeps_the_poll_rule_is_accepted():
    # 1,140 s x 2,900 / 54,000 = 61.22 %.
    assert read("cadence", watch_below_pct="61.3").cadence.watch_below_pct == 61.3
    assert list(faults_of(VERSION | {"cadence": {"watch_below_pct": "61.2"}})) == ["cadence"]
    # 5 + 1 + 1 + 2 = 9 min = 540 s, and 540 x 2,900 / 54,000 = 29 %: enough to the second
    spans = {"metric_lag": "1m", "tick_slack": "1m", "act_lead": "2m"}
    assert read("cadence", **spans, watch_below_pct="29").cadence.watch_below_pct == 29


def test_an_invalid_policy_cannot_be_built_by_hand_either():
    with pytest.raises(PolicyError, match=r"cadence\.calm_from_pct: 90 must be above watch_below_pct 95"):
        Policy(cadence=CadencePolicy(calm_from_pct=90.0))


# windows

WINDOWS = {
    "release": {"from": "2026-11-20T18:00", "to": "2026-11-21T06:00", "zone": "Europe/Berlin"},
    "nightly": {"cron": "0 22 * * *", "zone": "UTC", "duration": "8h", "where": "tag:Role=etcd"},
    "migration": {},
}


def test_windows_come_back_from_the_document_in_their_order():
    policy = Policy.from_mapping(VERSION | {"windows": WINDOWS})
    assert policy.windows == parse_windows(WINDOWS)[0]
    assert [window.name for window in policy.windows] == ["release", "nightly", "migration"]
    assert policy.to_mapping()["windows"] == WINDOWS
    assert Policy.from_mapping(policy.to_mapping()) == policy


def test_a_fault_in_a_window_spoils_the_whole_policy():
    document = VERSION | {"windows": WINDOWS | {"backup": {"cron": "0 22 * * *", "zone": "UTC"}}}
    assert faults_of(document) == {
        "windows.backup.duration": "is missing; a window has cron, zone and duration, or from and to"
    }
