import pytest

from burstwatch.core.policy.policy import Mode, ModePolicy
from burstwatch.core.policy.volume_tags import read_tags

DEFAULT_SETTINGS = ModePolicy()
CUSTOM_OPT_IN = ModePolicy(opt_in_tag=("team:flips", "Yes please"))
OPTED_IN = {"team:flips": "Yes please"}


@pytest.mark.parametrize(
    ("tags", "mode"),
    [
        ({}, Mode.PROPOSE),
        ({"Name": "ci-7", "team": "build"}, Mode.PROPOSE),
        ({"burstwatch:mode": "observe"}, Mode.OBSERVE),
        ({"burstwatch:mode": "propose"}, Mode.PROPOSE),
        ({"burstwatch:mode": "auto"}, Mode.AUTO),
    ],
)
def test_the_mode_is_what_the_tag_requests(tags, mode):
    settings = read_tags(tags, DEFAULT_SETTINGS)
    assert (settings.mode, settings.faults) == (mode, ())


@pytest.mark.parametrize("default", [Mode.OBSERVE, Mode.PROPOSE])
@pytest.mark.parametrize("tag_mode", [*Mode, None])
@pytest.mark.parametrize("highest", Mode)
def test_no_volume_gets_more_than_the_policys_highest(default, tag_mode, highest):
    tags = {"burstwatch:mode": str(tag_mode)} if tag_mode else {}
    settings = read_tags(tags, ModePolicy(default=default, highest=highest))
    assert settings.mode is min(tag_mode or default, highest, key=lambda mode: mode.rank)


@pytest.mark.parametrize(
    "text", ["Auto", "AUTO", " auto", "auto ", "", "yes", "true", "auto\n", "\u0430uto", "flip"]
)
@pytest.mark.parametrize("default", [Mode.OBSERVE, Mode.PROPOSE])
def test_an_invalid_mode_is_reported_and_read_as_the_default(text, default):
    settings = read_tags({"burstwatch:mode": text}, ModePolicy(default=default))
    [fault] = settings.faults
    assert settings.mode is default
    assert fault.startswith("burstwatch:mode=")
    assert fault.endswith(f"is not observe, propose or auto; treated as {default}")


@pytest.mark.parametrize(
    ("tags", "mode", "faults"),
    [
        (OPTED_IN, Mode.AUTO, 0),
        (OPTED_IN | {"burstwatch:mode": "auto"}, Mode.AUTO, 0),
        # A mode tag can always ask for less.
        (OPTED_IN | {"burstwatch:mode": "propose"}, Mode.PROPOSE, 0),
        (OPTED_IN | {"burstwatch:mode": "observe"}, Mode.OBSERVE, 0),
        (OPTED_IN | {"burstwatch:mode": "flip"}, Mode.PROPOSE, 1),
        # Not opted in: the tag must match to the letter.
        ({}, Mode.PROPOSE, 0),
        ({"team:flips": "yes please"}, Mode.PROPOSE, 0),
        ({"Team:flips": "Yes please"}, Mode.PROPOSE, 0),
        ({"team:flips": "Yes please "}, Mode.PROPOSE, 0),
        ({"burstwatch:mode": "auto"}, Mode.PROPOSE, 1),
        ({"burstwatch:mode": "observe"}, Mode.OBSERVE, 0),
    ],
)
def test_the_opt_in_tag_may_have_another_name(tags, mode, faults):
    settings = read_tags(tags, CUSTOM_OPT_IN)
    assert (settings.mode, len(settings.faults)) == (mode, faults)


def test_auto_without_the_opt_in_tag_names_the_missing_tag():
    assert read_tags({"burstwatch:mode": "auto"}, CUSTOM_OPT_IN).faults == (
        "burstwatch:mode=auto needs the opt-in tag team:flips=Yes please as well; treated as propose",
    )


def test_opting_in_has_no_effect_when_the_policy_allows_proposals_only():
    policy = ModePolicy(highest=Mode.PROPOSE, opt_in_tag=CUSTOM_OPT_IN.opt_in_tag)
    assert read_tags(OPTED_IN, policy).mode is Mode.PROPOSE


@pytest.mark.parametrize(
    ("text", "is_set", "faults"),
    [
        (None, False, 0),
        ("true", True, 0),
        ("false", False, 0),
        ("True", False, 1),
        ("yes", False, 1),
        ("1", False, 1),
        ("", False, 1),
        ("true ", False, 1),
    ],
)
@pytest.mark.parametrize(
    ("key", "field_name"), [("burstwatch:critical", "is_critical"), ("burstwatch:ignore", "is_ignored")]
)
def test_a_flag_is_true_or_false_and_nothing_else(key, field_name, text, is_set, faults):
    settings = read_tags({} if text is None else {key: text}, DEFAULT_SETTINGS)
    assert (getattr(settings, field_name), len(settings.faults)) == (is_set, faults)


def test_a_bad_flag_names_the_value_that_is_assumed():
    assert read_tags({"burstwatch:ignore": "yes"}, DEFAULT_SETTINGS).faults == (
        "burstwatch:ignore='yes' is not true or false; treated as false",
    )


@pytest.mark.parametrize(
    "key", ["burstwatch:modes", "burstwatch:", "Burstwatch:mode", "BURSTWATCH:IGNORE", "burstwatch:mode "]
)
def test_a_misspelt_key_is_reported(key):
    [fault] = read_tags({key: "auto"}, DEFAULT_SETTINGS).faults
    assert fault.startswith(f"'{key}' is not a burstwatch tag; known: burstwatch:critical, ")


@pytest.mark.parametrize("key", ["burstwatch", "burstwatch-mode", "mode", "aws:burstwatch:mode", ""])
def test_other_peoples_tags_are_left_alone(key):
    settings = read_tags({key: "auto"}, DEFAULT_SETTINGS)
    assert (settings.mode, settings.faults) == (Mode.PROPOSE, ())


def test_an_opt_in_tag_under_our_prefix_is_not_a_misspelt_key():
    policy = ModePolicy(opt_in_tag=("burstwatch:may-flip", "true"))
    settings = read_tags({"burstwatch:may-flip": "true"}, policy)
    assert (settings.mode, settings.faults) == (Mode.AUTO, ())


def test_every_fault_of_a_volume_is_reported_at_once():
    tags = {
        "burstwatch:mode": "on",
        "burstwatch:critical": "yes",
        "burstwatch:ignore": "no",
        "burstwatch:x": "",
    }
    assert len(read_tags(tags, DEFAULT_SETTINGS).faults) == 4


# windows that a tag calls


@pytest.mark.parametrize("text", [None, "", "release", "release,backup", " release  backup "])
def test_a_tag_may_name_known_windows(text):
    tags = {} if text is None else {"burstwatch:window": text}
    assert read_tags(tags, DEFAULT_SETTINGS, known_windows={"release", "backup"}).faults == ()


def test_an_unknown_window_is_reported_beside_the_known_ones():
    tags = {"burstwatch:window": "relaese, backup,nightly"}
    assert read_tags(tags, DEFAULT_SETTINGS, known_windows=["release", "backup"]).faults == (
        "burstwatch:window names 'nightly, relaese', which the policy does not define; known:"
        " backup, release",
    )
    assert read_tags(tags, DEFAULT_SETTINGS, known_windows=()).faults == (
        "burstwatch:window names 'backup, nightly, relaese', which the policy does not define;"
        " the policy has none",
    )


def test_five_windows_are_named_and_the_rest_counted():
    [fault] = read_tags({"burstwatch:window": "x"}, DEFAULT_SETTINGS, known_windows="gfedcba").faults
    assert fault.endswith("; known: a, b, c, d, e and 2 more")


def test_without_the_known_windows_at_hand_no_window_is_a_fault():
    assert read_tags({"burstwatch:window": "unheard-of"}, DEFAULT_SETTINGS).faults == ()


@pytest.mark.parametrize(
    "text",
    [
        "x" * 256,
        "\u202eotua",
        "a\nb\r\n\x1b[31mred",
        "\x00",
        "'; DROP TABLE volumes; --",
        "<!channel> <https://example.com|click>",
        "\ud800",
        "🔥" * 200,
    ],
)
@pytest.mark.parametrize("key", ["burstwatch:mode", "burstwatch:critical", "burstwatch:window"])
def test_hostile_text_is_shown_short_and_on_one_line(key, text):
    [fault] = read_tags({key: text}, DEFAULT_SETTINGS, known_windows=()).faults
    assert fault.isprintable()
    assert len(fault) < 160


def test_a_hostile_key_is_shown_short_and_on_one_line():
    [fault] = read_tags({"burstwatch:\x1b[2J\n" + "x" * 100: "true"}, DEFAULT_SETTINGS).faults
    assert fault.isprintable()
    assert fault.startswith("'burstwatch:?[2J?xxxx")


@pytest.mark.parametrize(
    ("text", "iops"),
    [("1", 1), ("0", None), ("999999", 999_999), ("1000000", None), ("1" * 40, None)],
)
def test_a_number_is_above_zero_and_of_a_length_that_can_be_one(text, iops):
    settings = read_tags({"burstwatch:iops": text}, DEFAULT_SETTINGS)
    assert (settings.target_override.iops, bool(settings.faults)) == (iops, iops is None)


def test_a_policy_whose_default_were_auto_opts_no_one_in():
    """No policy can say so; made in code, it still is the safe choice."""
    assert read_tags({}, ModePolicy(default=Mode.AUTO)).mode is Mode.PROPOSE


def test_the_value_of_a_tag_is_shown_up_to_a_length():
    for length, expected in [(40, "x" * 40), (41, "x" * 39 + "…"), (100, "x" * 39 + "…")]:
        [fault] = read_tags({"burstwatch:mode": "x" * length}, DEFAULT_SETTINGS).faults
        assert fault.startswith(f"burstwatch:mode={expected!r} is not")
