"""When a volume that full burst could soon empty counts as calm again, and when a low one is looked at."""

from dataclasses import replace
from datetime import timedelta

import pytest

from burstwatch.core.assessment.severity import Level, classify
from burstwatch.core.policy.policy import Policy
from support.builders.core_values import an_assessment, balances

SHIPPED = Policy()
SLOW = replace(SHIPPED, cadence=replace(SHIPPED.cadence, act_lead=timedelta(minutes=17)))
"""At 3 % a minute 100 GiB are empty after 33 min at most: within 34, so only what is calm has rested."""


@pytest.mark.parametrize(
    ("newest", "level"),
    [
        # 97 % is calm, and one minute of it may be noise
        ((96.9, 97.0), Level.CRITICAL),
        ((97.0, 96.9), Level.CRITICAL),
        ((97.0, 97.0), Level.OK),
    ],
)
def test_two_calm_minutes_settle_a_volume_whatever_the_lead(newest, level):
    assessment = an_assessment(balances(*[90.0] * 20, *newest))
    assert classify(assessment, Level.CRITICAL, SLOW) is level


@pytest.mark.parametrize(("newest", "level"), [((96.0, 94.9), Level.WATCH), ((94.9, 96.0), Level.OK)])
def test_a_volume_is_watched_from_the_first_minute_below_the_limit(newest, level):
    assert classify(an_assessment(balances(*[96.0] * 20, *newest)), Level.OK, SHIPPED) is level
