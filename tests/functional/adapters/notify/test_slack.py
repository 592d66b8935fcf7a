import json
import socket
import traceback

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.adapters.notify.slack import SlackChannel, render
from burstwatch.core.alerts.alert import Alert, AlertKind
from burstwatch.core.assessment.severity import Level
from support.builders.alerts import (
    a_digest,
    a_drain_alert_with_cause,
    a_policy_rejection,
    an_alert,
    an_event_digest,
    event_alerts_of_every_kind,
)
from support.delivery.fake_slack import (
    SECRET,
    assert_no_active_markup,
    assert_within_slacks_limits,
    texts,
    visible_text,
)


def refusal(channel, alert=None):
    with pytest.raises(ChannelError) as exc_info:
        channel.send(alert or an_alert())
    return exc_info.value


# What is sent


def test_an_alert_is_one_post_of_json(slack, channel):
    channel.send(an_alert())
    ((path, headers, payload),) = slack.posts
    assert path == f"/services/{SECRET}"
    assert headers["Content-Type"] == "application/json; charset=utf-8"
    assert payload == render(an_alert())


def test_the_message_holds_all_that_a_person_needs_to_act():
    alert = an_alert()
    text = visible_text(render(alert))
    for needed in (
        "🔴 CRITICAL: ci-7 ", alert.volume_id, "i-0fedcba9876543210", "123456789012", "31.5 %", "18:12",
        "18:09", f"```{alert.action}```", f"<{alert.runbook}|Runbook>", f"<{alert.console_url}|",
        alert.alert_id, "2026-11-20T18:00:35Z", "us-east-1",
    ):  # fmt: skip
        assert needed in text


@pytest.mark.parametrize(
    ("balance_pct", "bar"),
    [
        (31.5, "▓▓▓▓▓▓░░░░░░░░░░░░░░ 31.5 %"),  # 31.5 % of 20 cells are 6.3
        (100.0, "▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ 100.0 %"),
        (4.9, "░░░░░░░░░░░░░░░░░░░░ 4.9 %"),
        (0.0, "░░░░░░░░░░░░░░░░░░░░ 0.0 %"),
        (101.0, "▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ 101.0 %"),
    ],
)
def test_the_bar_never_shows_more_than_the_balance(balance_pct, bar):
    assert bar in visible_text(render(an_alert(reading={"burst_balance_pct": balance_pct})))


def test_a_message_has_what_is_urgent_first_and_the_ids_last():
    payload = render(a_drain_alert_with_cause())
    rendered_texts = [text for _, text in texts(payload)[1:]]
    assert rendered_texts == [
        "🔴 CRITICAL: claim data-etcd-0 in kube-system is empty in about 12 min (us-east-1)",
        "Burst balance 31.5 % at 17:59 UTC, draining at 2,100 credits/s; empty at about 18:12, not before"
        " 18:09 UTC.",
        f"*What to do*\n```{an_alert().action}```",
        rendered_texts[3],
        "*See why*\n```burstctl explain vol-0123456789abcdef0 --region us-east-1```",
        "*Stop automatic changes*\n```burstctl hold vol-0123456789abcdef0 --region us-east-1 --for 2h"
        " --reason 'looking at it'```",
        "*Kubernetes*\n`cluster prod`",
        "*Volume*\n`vol-0123456789abcdef0`",
        "*Attached as*\n`/dev/xvda on i-0fedcba9876543210 build-3`",
        "*Account*\n`123456789012`",
        rendered_texts[10],
        "2026-11-20T18:00:35Z · alert a461d265d7905ad49f1c5b139e4f6beb",
    ]
    assert rendered_texts[3].splitlines() == [
        "Balance from 17:27 to 17:59 UTC: 100.0 % ▇▇·▇▆▅▅▃▂ 31.5 %",
        "1,701,000 credits left; baseline 300 IOPS (100 GiB).",
        "The drain began at 17:37 UTC, at 100.0 %; since then it served 600 reads/s of 4 KiB and 1,800"
        " writes/s of 16 KiB (75 % writes).",
        "The same drain at this hour on 5 of the last 7 days.",
    ]
    assert_no_active_markup(payload)
    assert_within_slacks_limits(payload)


@pytest.mark.parametrize(
    "alert",
    [an_alert(), a_drain_alert_with_cause(), a_digest(3), *event_alerts_of_every_kind()],
    ids=lambda alert: alert.kind,
)
def test_no_fact_repeats_the_title(alert):
    header, facts = render(alert)["text"], [text for _, text in texts(render(alert)) if text.startswith("*")]
    values = [text.split("`")[1] for text in facts if text.count("`") == 2]
    assert [value for value in values if value in header] == []
    assert len(set(values)) == len(values)


def test_a_volume_that_only_people_flip_gets_no_hold_command():
    assert "burstctl hold" not in visible_text(render(a_drain_alert_with_cause(mode="propose")))
    assert "burstctl" not in visible_text(render(an_alert(kind="BurstBalanceRecovered", level="ok")))


def test_without_a_balance_there_is_no_bar():
    text = visible_text(
        render(an_alert(level="unknown", kind="TelemetryGap", reading={"burst_balance_pct": None}))
    )
    assert "░" not in text
    assert "⚪ UNKNOWN: " in text


@pytest.mark.parametrize(
    ("level", "emoji"),
    [("ok", "🟢"), ("watch", "🔵"), ("warning", "🟡"), ("critical", "🔴"), ("exhausted", "🔴")],
)
def test_a_level_is_reported_by_colour_and_by_word(level, emoji):
    payload = render(an_alert(level=level))
    assert payload["text"].startswith(f"{emoji} {level.upper()}: ")


@pytest.mark.parametrize(
    ("kind", "emoji"),
    [
        ("VolumeFlipped", "🟢"),
        ("VolumeFlippedBack", "🟢"),
        ("WindowStarting", "🟢"),
        ("FlipRefused", "🔴"),
        ("FlipFailed", "🔴"),
        ("FlipStuck", "🔴"),
        ("VolumeChangedByOthers", "🔴"),
        ("CriticalVolumeOnBurstStorage", "🔴"),
        ("WindowMissed", "🔴"),
        # the volume is ok, the money is not
        ("LeftOnTarget", "🟡"),
    ],
)
def test_a_pending_action_has_its_volume_colour_and_a_success_is_green(kind, emoji):
    reported = [alert for alert in event_alerts_of_every_kind() if alert.kind == kind]
    assert reported
    assert all(render(alert)["text"].startswith(emoji) for alert in reported)


@pytest.mark.parametrize("alert", event_alerts_of_every_kind(), ids=lambda alert: alert.kind)
def test_an_event_is_shown_in_full(alert):
    payload = render(alert)
    text = visible_text(payload).replace("\u2236", ":")
    for needed in (*alert.evidence["details"], f"```{alert.action}```" if alert.action else "", "|Runbook>"):
        assert needed in text
    assert_no_active_markup(payload)
    assert_within_slacks_limits(payload)


def test_an_instant_stays_copyable():
    device = "at 12:30:00 of 2026-11-20T18:00:35Z :100: :x:"
    text = visible_text(render(an_alert(volume={"device": device})))
    assert "at 12:30:00 of 2026-11-20T18:00:35Z" in text
    assert not {":100:", ":x:"} & set(text.split())


def test_a_digest_names_the_most_urgent_and_counts_the_rest():
    payload = render(a_digest(25))
    text = visible_text(payload)
    assert "25 " in payload["text"]
    assert text.count("vol-") == 20
    assert_within_slacks_limits(payload)


@pytest.mark.parametrize("runbook", ["runbooks/BurstBalanceDraining.md", None])
def test_without_an_address_of_the_runbooks_the_command_that_shows_the_page_is_named(runbook):
    text = visible_text(render(an_alert(runbook=runbook)))
    assert "Runbook: `burstctl runbook BurstBalanceDraining`" in text
    assert "|Runbook>" not in text


@pytest.mark.parametrize(
    "runbook", ["https://x|y>", "https://x> <!channel", "http://x/y", "javascript:alert(1)", "https://x y"]
)
def test_an_address_that_could_break_out_of_its_link_is_not_linked(runbook):
    payload = render(an_alert(runbook=runbook))
    assert "|Runbook>" not in visible_text(payload)
    assert_no_active_markup(payload)


def test_an_alert_about_a_volume_that_is_gone_can_be_reported_too():
    gone = Alert(
        alert_id="1", kind=AlertKind.RECOVERED, level=Level.UNKNOWN, previous_level=Level.CRITICAL,
        at_s=0, volume_id="vol-1", volume={"volume_id": "vol-1"},
        reading={"unknown_because": "the volume was deleted"},
    )  # fmt: skip
    payload = render(gone)
    assert "the volume was deleted" in visible_text(payload)
    assert_within_slacks_limits(payload)


def test_nothing_is_unfurled_or_parsed():
    payload = render(an_alert())
    assert payload["parse"] == "none"
    assert (payload["link_names"], payload["unfurl_links"], payload["unfurl_media"]) == (False, False, False)
    assert payload["mrkdwn"] is False
    assert all(
        item["verbatim"] is True if item["type"] == "mrkdwn" else item["emoji"] is False
        for block in payload["blocks"]
        for item in [block.get("text"), *block.get("fields", ()), *block.get("elements", ())]
        if item
    )


# What comes from outside is inert

ASTRAL = "\U0001d518"
"""Two UTF-16 units."""

ACTIVE_MARKUP = st.sampled_from(
    ["<!channel>", "<!here>", "@here", "@channel", "<@U012AB3CD>", "<#C012AB3CD>", "<!subteam^S1>",
     "<!date^1^x|y>", "<http://evil.example|Runbook>", "http://evil.example", "https://evil.example/x",
     "mailto:a@evil.example", "a@evil.example", ":x:", ":100:", ":wave::skin-tone-2:", "*bold*", "_it_",
     "~no~", "`code`", "```", "\n```\n", "&lt;!channel&gt;", "&amp;", "\u202e", "\u2066", "\u200b", "\x00",
     "\x1b[31m", "\r\n", "\ud800", "\\", '"', ASTRAL * 50, "é" * 300, "&" * 300, "<" * 200, '"' * 300,
     "\\" * 300, "> quote", "日" * 200]
)  # fmt: skip
EXTERNAL_TEXT = st.lists(st.one_of(ACTIVE_MARKUP, st.text(max_size=80)), max_size=5).map("".join)


@settings(max_examples=150, deadline=None)
@given(EXTERNAL_TEXT, EXTERNAL_TEXT, EXTERNAL_TEXT, EXTERNAL_TEXT)
@example("<!channel>", "`", "```\n<!here> ```", "|x> <!channel>")
@example('"' * 300, '"' * 300, '"' * 300, '"' * 300)
def test_external_text_is_inert_and_fits(name, instance, action, runbook):
    payload = render(
        an_alert(
            volume={
                "name": name,
                "instance_id": instance,
                "device": instance,
                "region": name,
                "account": name,
            },
            evidence={"tag_faults": [name] * 30},
            action=action,
            runbook=f"https://wiki.example.com/{runbook}",
        )
    )
    assert json.loads(json.dumps(payload).encode()) == payload
    assert_no_active_markup(payload)
    assert_within_slacks_limits(payload)


@settings(max_examples=60, deadline=None)
@given(EXTERNAL_TEXT)
@example("<!channel> @here :x: `")
@example('"' * 300)
@example("&" * 300)
def test_external_text_is_inert_in_an_alert_about_a_flip_or_a_window(text):
    for alert in (*event_alerts_of_every_kind(text), an_event_digest(text)):
        payload = render(alert)
        assert json.loads(json.dumps(payload).encode()) == payload
        assert_no_active_markup(payload)
        assert_within_slacks_limits(payload)


@settings(max_examples=60, deadline=None)
@given(EXTERNAL_TEXT)
@example("<!channel> @here :x: `")
@example('"' * 300)
@example("&" * 300)
def test_external_names_are_inert_in_a_drain_message(text):
    payload = render(a_drain_alert_with_cause(text))
    assert json.loads(json.dumps(payload).encode()) == payload
    assert_no_active_markup(payload)
    assert_within_slacks_limits(payload)


@settings(max_examples=60, deadline=None)
@given(st.lists(EXTERNAL_TEXT, min_size=1, max_size=60), EXTERNAL_TEXT)
@example(['"' * 300] * 60, '"')
@example(["&" * 300] * 60, "&")
@example([ASTRAL * 300] * 60, ASTRAL)
def test_long_external_lists_and_reasons_are_inert_and_fit(faults, because):
    unread = an_alert(reading={"burst_balance_pct": None, "unknown_because": because})
    for alert in (a_policy_rejection(*faults), unread):
        payload = render(alert)
        assert_no_active_markup(payload)
        assert_within_slacks_limits(payload)


def test_a_name_is_still_readable_and_copyable():
    text = visible_text(render(an_alert(volume={"name": "ci_runner*7 [büro]"})))
    assert "CRITICAL: ci_runner*7 [büro] is empty" in text


# How Slack answers


def test_messages_are_a_second_apart(slack, channel, time):
    channel.send(an_alert())
    channel.send(an_alert())
    assert len(slack.posts) == 2
    assert time.slept == [1.0]


def test_a_pause_between_alerts_counts_towards_the_second(slack, channel, time):
    channel.send(an_alert())
    time.now_s += 0.75
    channel.send(an_alert())
    assert time.slept == [0.25]


def test_a_short_retry_after_is_honoured(slack, channel, time):
    slack.answers = [(429, "rate_limited", {"Retry-After": "4"})]
    channel.send(an_alert())
    assert time.slept == [4.0]
    assert len(slack.posts) == 2


def test_a_retry_after_too_long_for_a_pass_is_reported_and_kept_for_the_next_alert(slack, channel, time):
    slack.answers = [(429, "rate_limited", {"Retry-After": "90"})]
    first = refusal(channel)
    assert (first.is_permanent, "90 s" in str(first)) == (False, True)
    time.now_s += 20
    assert "70 s" in str(refusal(channel))
    assert len(slack.posts) == 1
    time.now_s += 70
    channel.send(an_alert())
    assert time.slept == []


@pytest.mark.parametrize("retry_after", ["0", "-5", "soon", "", "Fri, 20 Nov 2026 18:00:00 GMT", "1e9"])
def test_pauses_add_up_to_half_a_minute_at_most(slack, channel, time, retry_after):
    slack.answers = [(429, "rate_limited", {"Retry-After": retry_after})] * 100
    assert not refusal(channel).is_permanent
    assert sum(time.slept) <= 30
    assert len(slack.posts) <= 31


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (400, "invalid_payload", "report it"),
        (400, "invalid_blocks", "report it"),
        (400, "no_text", "report it"),
        (403, "action_prohibited", "administrator"),
        (403, "invalid_token", "new incoming webhook"),
        (404, "channel_not_found", "another one"),
        (404, "no_service", "new incoming webhook"),
        (404, "no_active_hooks", "new incoming webhook"),
        (404, "no_team", "new incoming webhook"),
        (410, "channel_is_archived", "unarchive"),
        (500, "no_service", "new incoming webhook"),
        (403, "posting_to_general_channel_denied", "administrator"),
        (403, "team_disabled", "workspace is disabled"),
        (418, "<html>teapot</html>", "HTTP 418"),
    ],
)
def test_a_refusal_is_permanent_and_names_the_next_step(slack, channel, status, body, message):
    slack.answers = [(status, body, {})]
    error = refusal(channel)
    assert error.is_permanent
    assert message in str(error)
    assert (body in str(error)) is not body.startswith("<")
    assert len(slack.posts) == 1


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_slack_failure_is_transient(slack, channel, status):
    slack.answers = [(status, "rollup_error", {})]
    error = refusal(channel)
    assert not error.is_permanent
    assert f"HTTP {status}, rollup_error" in str(error)


def test_a_response_that_is_not_from_slack_is_not_a_delivery(slack, channel):
    slack.answers = [(200, "<html>please log in</html>", {})]
    error = refusal(channel)
    assert not error.is_permanent
    assert "not Slack's ok" in str(error)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(slack, channel, status):
    slack.answers = [(status, "", {"Location": f"{slack.base}/elsewhere"})]
    error = refusal(channel)
    assert error.is_permanent
    assert "redirect" in str(error)
    assert [path for path, _, _ in slack.posts] == [f"/services/{SECRET}"]


def test_a_broken_connection_is_transient(slack, channel):
    slack.answers = [None]
    error = refusal(channel)
    assert not error.is_permanent
    assert "could not be reached" in str(error)


def test_an_unreachable_server_is_transient(time):
    with socket.socket() as bound_but_deaf:
        bound_but_deaf.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound_but_deaf.getsockname()[1]}/services/{SECRET}"
        error = refusal(SlackChannel(url, sleep=time.sleep, clock=time))
    assert not error.is_permanent
    assert "refused" in str(error)


def test_every_request_has_a_timeout_which_is_transient(time):
    def open_url(request, *, timeout):
        requests.append(timeout)
        raise TimeoutError("timed out")

    requests = []
    error = refusal(SlackChannel(f"https://hooks.slack.com/services/{SECRET}", open_url=open_url, clock=time))
    assert requests == [5.0]
    assert (error.is_permanent, "timed out" in str(error)) == (False, True)


# The address is a secret


@pytest.mark.parametrize(
    "url",
    [
        f"http://hooks.slack.com/services/{SECRET}",
        f"http://127.0.0.1.evil.example/services/{SECRET}",
        f"http://127.0.0.1@evil.example/services/{SECRET}",
        f"ftp://127.0.0.1/services/{SECRET}",
        f"file:///services/{SECRET}",
        f"https://hooks.slack.com/services/{SECRET}\n",
        f"https://hooks.slack.com/ services/{SECRET}",
        f"services/{SECRET}",
        "https://[/",
        "",
    ],
)
def test_only_an_https_address_is_accepted_and_none_is_repeated(url):
    with pytest.raises(ChannelError, match="not an https:// one") as exc_info:
        SlackChannel(url)
    assert exc_info.value.is_permanent
    assert "services" not in str(exc_info.value)


@pytest.mark.parametrize(
    "base", ["https://hooks.slack.com", "http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"]
)
def test_https_anywhere_and_http_to_this_machine_are_accepted(base):
    assert SlackChannel(f"{base}/services/{SECRET}").name == "slack"


@pytest.mark.parametrize(
    "answer",
    [
        None,
        (404, "no_service", {}),
        (404, f"/services/{SECRET} not found", {}),
        (500, SECRET, {}),
        (302, "", {}),
        (429, "", {"Retry-After": "99"}),
        (200, SECRET, {}),
    ],
)
def test_the_address_appears_in_no_error(slack, channel, answer):
    slack.answers = [answer]
    error = refusal(channel)
    rendered = "".join(traceback.format_exception(error)) + repr(error) + repr(channel) + str(channel)
    assert SECRET not in rendered
    assert "services" not in rendered


def test_a_proxy_of_the_environment_is_not_used_for_this_machine(slack, time, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    SlackChannel(slack.url, sleep=time.sleep, clock=time).send(an_alert())
    assert len(slack.posts) == 1
