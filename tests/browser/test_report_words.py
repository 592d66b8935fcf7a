"""What the page says without its script: no browser is needed to read it."""

import re
from dataclasses import replace
from html import unescape

from some_pages import NOW_S, a_reported, calm, page_of, silent

from burstctl.report.activity import Deed, Sort
from burstctl.report.activity_html import LEAST_OF_A_SORT, MOST_DEEDS


def words_of(reported):
    """The page's text on one line."""
    text = re.sub(r"<(script|style|symbol)\b.*?</\1>", " ", page_of(reported), flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).split())


def test_of_what_could_not_be_read_it_claims_nothing():
    whole, partial = a_reported([calm(1)]), a_reported([calm(1)], failures=("ec2:DescribeVolumes: <denied>",))
    assert " Nothing runs dry " in words_of(whole)
    assert "not whole" not in words_of(whole)
    said = words_of(partial)
    assert " Nothing that could be read runs dry " in said
    assert "This page is not whole. Not read: ec2:DescribeVolumes: <denied>." in said
    mute = a_reported([calm(1), silent(2)], unread={"vol-1": "denied", "vol-2": "denied"})
    assert "Nothing that could be read is seen to run dry, but 1 tells nothing" in words_of(mute)
    assert "Not read: the picture of vol-1: denied, and 1 more at the end." in words_of(mute)


def a_deed(sort, before_s, line):
    return Deed(at_s=int(NOW_S) - before_s, sort=sort, subject="vol-1", line=line)


def test_many_alerts_do_not_push_out_what_was_refused():
    alerts = [a_deed(Sort.ALERTED, nth, f"alert {nth}") for nth in range(MOST_DEEDS + 50)]
    refused = [a_deed(Sort.REFUSED, 10_000 + nth, f"refusal {nth}.") for nth in range(LEAST_OF_A_SORT + 5)]
    said = words_of(replace(a_reported([calm(1)]), deeds=[*alerts, *refused]))
    assert f"refusal {LEAST_OF_A_SORT - 1}." in said
    assert f"refusal {LEAST_OF_A_SORT}." not in said
    assert "460 of 515 in the last 24 h, newest first" in said
    assert f"alert {MOST_DEEDS - 1} " in said
    assert f"alert {MOST_DEEDS} " not in said
