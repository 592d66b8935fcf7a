"""Access: the identity that AWS sees, and whether the clock agrees with AWS's."""

from collections.abc import Iterator
from datetime import UTC, datetime
from time import time
from typing import Final

from burstctl.doctor.context import Caller, DoctorContext
from burstctl.doctor.finding import Finding, broken, ok, skipped, warning
from burstwatch.core.text import format_duration, format_instant
from burstwatch.wiring.settings import CLOCK

MAX_SKEW_S: Final = 120.0
"""From here on a watch refuses to judge; AWS refuses to listen from five minutes on."""

_WARN_SKEW_S: Final = 30.0  # a clock that is set by NTP is right within a second
_EXPIRES_SOON_S: Final = 15 * 60  # too short for a watch, or to wait for the end of a modification
_FROM_ENVIRONMENT: Final = "env"
_CLOCK_FIX: Final = "set this machine's clock, and keep it synchronized (such as with chrony)"


def check_credentials(context: DoctorContext) -> Iterator[Finding]:
    """Whose they are, and how long they last."""
    region = context.region
    caller = context.caller()
    yield judge_credentials(caller, region, now_s=time())


def check_clock(context: DoctorContext) -> Iterator[Finding]:
    """How far this machine's clock is from AWS's."""
    if not context.uses_endpoint_clock:
        yield judge_clock(context.caller().clock_ahead_s)
        return
    now = datetime.fromtimestamp(context.now_s(), tz=UTC)
    yield skipped(
        f"{CLOCK}=endpoint: it is {now:%Y-%m-%d %H:%M:%S} UTC there, and this machine's clock is not used",
        fix=f"for AWS itself, unset {CLOCK}",
    )


def judge_credentials(caller: Caller, region: str, *, now_s: float) -> Finding:
    """Valid credentials are good, unless they are root's or expire soon."""
    identity = caller.identity
    summary = f"{identity.arn} of account {identity.account}, in {region}"
    summary += f", by {caller.method}" if caller.method else ""
    if identity.arn.endswith(":root"):
        fix = "use those of a user or a role: burstctl doctor then names each permission that they lack"
        return warning(f"{summary}: these are the root user's, who may do everything", fix=fix)
    if caller.expires_at is None:
        return ok(summary)
    left_s = caller.expires_at.timestamp() - now_s
    until = f"until {format_instant(caller.expires_at.timestamp())}"
    if caller.method != _FROM_ENVIRONMENT:
        return ok(f"{summary}, {until} and then renewed")
    if left_s < _EXPIRES_SOON_S:
        fix = "get new ones before you begin anything long, such as a watch: these cannot renew themselves"
        return warning(f"{summary}, and they end in {format_duration(max(0.0, left_s))}", fix=fix)
    return ok(f"{summary}, {until}")


def judge_clock(ahead_s: float | None) -> Finding:
    """A signature holds for five minutes, and every forecast counts from now."""
    if ahead_s is None:
        return skipped("not known: AWS's answer had no date")
    skew_s, direction = abs(ahead_s), "ahead of" if ahead_s > 0 else "behind"
    summary = f"{format_duration(skew_s)} {direction} AWS's"
    commands = ("chronyc makestep",)
    if skew_s > MAX_SKEW_S:
        limit = f"a watch refuses from {format_duration(MAX_SKEW_S)} on, AWS from 5 min"
        return broken(f"{summary}; {limit}", fix=_CLOCK_FIX, commands=commands)
    if skew_s > _WARN_SKEW_S:
        return warning(f"{summary}: forecasts are wrong by as much", fix=_CLOCK_FIX, commands=commands)
    return ok("as AWS's, to the second" if skew_s < 2 else summary)  # noqa: PLR2004 - what a header tells
