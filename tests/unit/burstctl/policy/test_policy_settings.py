"""A policy as people read it: each setting with a comment, and YAML that is read back as the same policy."""

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstctl.policy.settings import list_settings, render_policy
from burstwatch.adapters.policy.yaml_file import MAX_BYTES, parse_policy
from burstwatch.core.policy.policy import Policy, PolicyError

SETTINGS = {setting.path: setting for setting in list_settings(Policy())}
VALUES = [
    *("1", "2", "2m", "5m", "7m", "15m", "20m", "45m", "1h", "3h", "1d"),
    *("0", "12.5", "50", "96", "99", "100"),
    *("observe", "propose", "auto", "gp3", "io1", "io2", "critical", "warning", "always", "never"),
    *("four_per_day", "six_hours", "https://example.com/pages", "mon-fri 08:00-18:00 Europe/Berlin"),
    *("team:flips=Yes please", "k=#: 'v\"", "true", "false", "st1", "sc1, gp2"),
]


def read(document):
    return Policy.from_mapping({"version": "1", **document})


def try_to_read(document):
    try:
        return read(document)
    except PolicyError:
        return None


def accepted_values(path):
    """The values with which a policy is valid that has nothing else in it but a kind that is watched."""
    return [
        value
        for value in VALUES
        if try_to_read(document_of({"resources.instance.watch": "true", path: value}))
    ]


def document_of(chosen):
    document = {}
    for path, value in chosen.items():
        *sections, key = path.split(".")
        section = document
        for name in sections:
            section = section.setdefault(name, {})
        section[key] = value
    return document


@cache
def accepted_by_path():
    """Not on import: it takes seconds, which each worker that collects the tests would spend."""
    return {path: accepted_values(path) for path in SETTINGS}


documents = st.deferred(
    lambda: st.fixed_dictionaries(
        {}, optional={path: st.sampled_from(values) for path, values in accepted_by_path().items()}
    )
).map(document_of)


def comments_of(text):
    """The comment above each setting, by its path, on one line."""
    comments, sections, comment = {}, [], []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            comment.append(stripped.removeprefix("# "))
            continue
        del sections[(len(line) - len(line.lstrip())) // 2 :]
        sections.append(stripped.partition(":")[0])
        if (path := ".".join(sections)) in SETTINGS:
            comments[path] = " ".join(comment)
        comment = []
    return comments


def test_some_value_other_than_the_default_is_tried_of_every_setting():
    assert [
        path for path, values in accepted_by_path().items() if not set(values) - {SETTINGS[path].default}
    ] == []


@given(documents)
def test_the_yaml_is_read_back_as_the_same_policy(document):
    if policy := try_to_read(document):
        text = render_policy(policy)
        assert parse_policy(text.encode(), source="saved") == policy
        assert max(map(len, text.splitlines())) <= 80
        assert len(text.encode()) < MAX_BYTES


@given(documents)
def test_exactly_the_settings_that_differ_from_the_default_are_marked(document):
    if policy := try_to_read(document):
        marked = {
            path for path, comment in comments_of(render_policy(policy)).items() if "CHANGED" in comment
        }
        assert marked == {
            setting.path
            for setting in list_settings(policy)
            if setting.value != SETTINGS[setting.path].default
        }


def test_every_setting_has_a_comment_with_its_unit_default_and_meaning():
    comments = comments_of(render_policy(Policy()))
    assert list(comments) == list(SETTINGS)
    for path, setting in SETTINGS.items():
        assert comments[path] == f"{setting.unit}; default {setting.default}: {setting.meaning}"
    assert comments["levels.exhausted_pct"] == "%; default 1: exhausted at or below this balance"
    assert comments["flip.fleet_cap"].startswith("volumes; default 50: ")


def test_a_changed_setting_shows_the_default_that_it_had():
    policy = read({"levels": {"warning_within": "45m"}})
    assert comments_of(render_policy(policy))["levels.warning_within"] == (
        "CHANGED. duration; default 1h: warning when empty within this time"
    )


def test_a_line_break_in_a_tag_stays_in_its_value():
    policy = Policy(mode=replace(Policy().mode, opt_in_tag=("key", "first\n\nsecond: 2")))
    text = render_policy(policy)
    assert parse_policy(text.encode(), source="saved") == policy


@pytest.mark.parametrize(
    ("path", "rejected"),
    [
        ("mode.default", "auto"),
        ("mode.highest", "always"),
        ("flip.target", "gp2"),
        ("flip.act_at", "watch"),
        ("flip.quota_rule", "always"),
        ("flip_back.return", "gp2"),
    ],
)
def test_a_choice_lists_the_words_that_are_accepted(path, rejected):
    choices = SETTINGS[path].unit.replace(" or ", ", ").split(", ")
    section, _, key = path.partition(".")
    assert [word for word in choices if try_to_read({section: {key: word}}) is None] == []
    assert set(accepted_by_path()[path]) == set(choices)
    assert try_to_read({section: {key: rejected}}) is None
