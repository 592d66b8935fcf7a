"""What the page says without its script: no browser is needed to read it."""

import re
from dataclasses import replace
from html import unescape

from burstctl.report.activity import Activity, ActivityKind
from burstctl.report.activity_html import MAX_ACTIVITIES, MIN_PER_KIND
from support.builders.pages import (
    NOW_S,
    a_calm_volume,
    a_fleet_report,
    a_volume_without_data,
    render_report_page,
)


def visible_text(reported):
    """The page's text on one line."""
    text = re.sub(r"<(script|style|symbol)\b.*?</\1>", " ", render_report_page(reported), flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).split())


def test_the_page_claims_nothing_about_unread_volumes():
    whole, partial = (
        a_fleet_report([a_calm_volume(1)]),
        a_fleet_report([a_calm_volume(1)], failures=("ec2:DescribeVolumes: <denied>",)),
    )
    assert " Nothing will be empty " in visible_text(whole)
    assert "not whole" not in visible_text(whole)
    page_text = visible_text(partial)
    assert " Nothing that could be read will be empty " in page_text
    assert "This page is incomplete. Not read: ec2:DescribeVolumes: <denied>." in page_text
    page = a_fleet_report(
        [a_calm_volume(1), a_volume_without_data(2)], unread={"vol-1": "denied", "vol-2": "denied"}
    )
    assert "Nothing that could be read is expected to be empty, but 1 has no data" in visible_text(page)
    assert "Not read: the picture of vol-1: denied, and 1 more at the end." in visible_text(page)


def an_activity(sort, before_s, line):
    return Activity(at_s=int(NOW_S) - before_s, kind=sort, subject="vol-1", line=line)


def test_many_alerts_do_not_hide_refusals():
    alerts = [an_activity(ActivityKind.ALERTED, nth, f"alert {nth}") for nth in range(MAX_ACTIVITIES + 50)]
    refused = [
        an_activity(ActivityKind.REFUSED, 10_000 + nth, f"refusal {nth}.") for nth in range(MIN_PER_KIND + 5)
    ]
    page_text = visible_text(replace(a_fleet_report([a_calm_volume(1)]), activities=[*alerts, *refused]))
    assert f"refusal {MIN_PER_KIND - 1}." in page_text
    assert f"refusal {MIN_PER_KIND}." not in page_text
    assert "460 of 515 in the last 24 h, newest first" in page_text
    assert f"alert {MAX_ACTIVITIES - 1} " in page_text
    assert f"alert {MAX_ACTIVITIES} " not in page_text
