import io

import pytest

from burstctl.render.terminal_channel import TerminalChannel
from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.core.text import display_width
from support.builders.alerts import (
    a_digest,
    a_drain_alert_with_cause,
    a_policy_rejection,
    an_alert,
    an_event_digest,
    event_alerts_of_every_kind,
)

TERMINAL = {"TERM": "xterm-256color"}


class FakeTerminal(io.StringIO):
    def isatty(self):
        return True


def render_alert(alert, stream=None, environ=None):
    stream = stream or io.StringIO()
    TerminalChannel(stream, environ=environ or {}).send(alert)
    return stream.getvalue().removesuffix("\n")


def test_the_first_line_begins_with_the_word_for_the_level():
    assert render_alert(an_alert()).startswith("CRITICAL: ")
    assert render_alert(an_alert(kind="BurstBalanceRecovered", level="ok")).startswith("RECOVERED: ")
    assert render_alert(a_digest()).startswith("CRITICAL: ")
    assert render_alert(a_policy_rejection("x")).startswith("WARNING: ")


def test_the_ids_are_below_the_command():
    lines = render_alert(an_alert()).splitlines()
    assert lines[-3:] == [
        "  Volume: vol-0123456789abcdef0; Attached as: /dev/xvda on i-0fedcba9876543210;",
        "  Account: 123456789012",
        "  2026-11-20T18:00:35Z · alert a461d265d7905ad49f1c5b139e4f6beb",
    ]


def test_a_blank_line_is_between_two_alerts():
    stream = io.StringIO()
    alone = render_alert(an_alert())
    render_alert(an_alert(), stream)
    assert render_alert(an_alert(), stream) == f"{alone}\n{alone}"


def test_an_alert_fits_a_narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    lines = render_alert(an_alert(), FakeTerminal()).splitlines()
    assert max(display_width(line) for line in lines if "Runbook: https://" not in line) <= 60
    assert render_alert(an_alert()).splitlines() != lines, "elsewhere it has the width of an ordinary one"


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        ("VolumeFlipped", "FLIPPED: "),
        ("VolumeFlippedBack", "FLIPPED BACK: "),
        ("FlipRefused", "CRITICAL: "),
        ("FlipFailed", "CRITICAL: "),
        ("FlipStuck", "CRITICAL: "),
        ("LeftOnTarget", "WARNING: "),
        ("VolumeChangedByOthers", "CRITICAL: "),
        ("CriticalVolumeOnBurstStorage", "CRITICAL: "),
        ("WindowMissed", "CRITICAL: "),
        ("WindowStarting", "WINDOW: "),
    ],
)
def test_an_event_begins_with_how_urgent_it_is_and_has_the_next_step(kind, first):
    for alert in event_alerts_of_every_kind():
        if alert.kind == kind:
            text = render_alert(alert)
            assert text.startswith(first)
            assert ("What to do:" in text) is (alert.action is not None)
            assert all(detail in " ".join(text.split()) for detail in alert.evidence["details"])


@pytest.mark.parametrize(
    "alert",
    [
        an_alert(),
        *event_alerts_of_every_kind(),
        *event_alerts_of_every_kind("長い \n`<!here>`\x1b[2J \u202e" * 20),
        an_event_digest("長い \n`<!here>`\x1b[2J \u202e" * 20),
        an_alert(volume={"name": "n" * 256}),
        an_alert(volume={"name": "長い名前" * 60}),
        an_alert(reading={"burst_balance_pct": None, "unknown_because": "word " * 100}),
        a_digest(),
        a_drain_alert_with_cause(),
        a_drain_alert_with_cause("長い \n`<!here>`\x1b[2J \u202e" * 20),
        a_policy_rejection(*("levels.warning_within: " + "x" * 400 for _ in range(40))),
    ],
    ids=lambda alert: alert.kind,
)
def test_every_line_fits_eighty_columns(alert):
    lines = render_alert(alert).splitlines()
    assert [line for line in lines if display_width(line) > 80] == []
    assert all(line.startswith("  ") for line in lines[1:])


def test_the_command_reads_as_one_command_for_a_shell():
    lines = render_alert(an_alert()).splitlines()
    start = next(i for i, line in enumerate(lines) if "modify-volume" in line)
    joined = "\n".join(lines[start : start + 2]).replace("\\\n", " ")
    assert joined.split() == an_alert().action.split()


def test_an_action_without_a_command_is_a_sentence():
    action = "managed by " + "amazon-eks " * 10 + ": change its volume type there"
    assert " \\\n" not in render_alert(an_alert(action=action))


@pytest.mark.parametrize(
    "name", ["a\x1b[2Jb", "a\x9b2Jb", "a\x07b", "a\u202eb", "a\u2066b", "a\u200bb", "a\x00b", "a\x7fb"]
)
def test_a_name_cannot_reach_the_terminal_as_a_control(name):
    text = render_alert(an_alert(volume={"name": name}), FakeTerminal(), TERMINAL | {"NO_COLOR": "1"})
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "a?" in text


@pytest.mark.parametrize("text", ["a\x1b[2Jb", "a\x9b2Jb", "a\u202eb", "a\u200bb", "a\x00b"])
def test_no_text_in_an_event_can_reach_the_terminal_as_a_control(text):
    for alert in (*event_alerts_of_every_kind(text), an_event_digest(text)):
        rendered = render_alert(alert, FakeTerminal(), TERMINAL | {"NO_COLOR": "1"})
        assert all(character.isprintable() or character == "\n" for character in rendered)


def test_no_text_in_an_event_can_begin_a_line():
    for alert in (
        *event_alerts_of_every_kind("x\ncritical: all is well"),
        an_event_digest("x\ncritical: all"),
    ):
        assert "\ncritical: all" not in render_alert(alert)


def test_a_name_cannot_begin_a_line():
    assert "\ncritical: all is well" not in render_alert(
        an_alert(volume={"name": "x\ncritical: all is well"})
    )


@pytest.mark.parametrize(
    ("stream", "environ", "is_coloured"),
    [
        (FakeTerminal, TERMINAL, True),
        (FakeTerminal, TERMINAL | {"NO_COLOR": ""}, True),
        (FakeTerminal, TERMINAL | {"NO_COLOR": "1"}, False),
        (FakeTerminal, {"TERM": "dumb"}, False),
        (io.StringIO, TERMINAL, False),
    ],
)
def test_colour_is_only_for_a_terminal_that_wants_it(stream, environ, is_coloured):
    text = render_alert(an_alert(), stream(), environ)
    assert text.startswith("\x1b[1;31mCRITICAL\x1b[0m: " if is_coloured else "CRITICAL: ")
    assert text.count("\x1b") == (2 if is_coloured else 0)


@pytest.mark.parametrize(
    ("kind", "colour"), [("VolumeFlipped", "32"), ("LeftOnTarget", "33"), ("FlipFailed", "1;31")]
)
def test_an_event_has_the_colour_of_how_pressing_it_is(kind, colour):
    alert = next(alert for alert in event_alerts_of_every_kind() if alert.kind == kind)
    assert render_alert(alert, FakeTerminal(), TERMINAL).startswith(f"\x1b[{colour}m")


def test_a_character_that_the_stream_cannot_encode_does_not_lose_the_alert():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    TerminalChannel(stream, environ={}).send(an_alert(volume={"name": "büro-é"}))
    assert b"b?ro-?" in raw.getvalue()


def test_the_sparkline_falls_back_to_ascii_when_the_stream_cannot_encode_it():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    TerminalChannel(stream, environ={}).send(a_drain_alert_with_cause())
    assert b"UTC: 100.0 % ## #*==-. 31.5 %" in raw.getvalue()
    assert "UTC: 100.0 % ▇▇·▇▆▅▅▃▂ 31.5 %" in render_alert(a_drain_alert_with_cause())


def test_a_drain_names_what_to_paste():
    text = render_alert(a_drain_alert_with_cause())
    explain = "  See why:\n    burstctl explain vol-0123456789abcdef0 --region us-east-1\n"
    assert explain in text
    assert "  Stop automatic changes:\n    burstctl hold vol-0123456789abcdef0" in text


def test_a_stream_that_is_closed_is_a_permanent_error():
    stream = io.StringIO()
    channel = TerminalChannel(stream, environ={})
    stream.close()
    with pytest.raises(ChannelError, match="could not be written") as exc_info:
        channel.send(an_alert())
    assert exc_info.value.is_permanent
