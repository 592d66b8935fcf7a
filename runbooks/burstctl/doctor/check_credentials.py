"""Access: whom AWS takes us for, and whether our clock is AWS's."""

from collections.abc import Iterator
from datetime import UTC, datetime
from time import time
from typing import Final

from burstctl.doctor.context import Caller, Patient
from burstctl.doctor.finding import Finding, broken, ok, skipped, warning
from burstwatch.core.text import format_duration, format_instant
from burstwatch.wiring.settings import CLOCK

MOST_SKEW_S: Final = 120.0
"""From here on a watch refuses to judge; AWS refuses to listen from five minutes on."""

_ODD_SKEW_S: Final = 30.0
_SOON_S: Final = 15 * 60
_FROM_ENVIRONMENT: Final = "env"
_SET_CLOCK: Final = "set this machine's clock, and keep it set (chrony, or whatever keeps time here)"


def check_credentials(patient: Patient) -> Iterator[Finding]:
    """Whose they are, and how long they last."""
    region = patient.region
    caller = patient.caller()
    yield judge_credentials(caller, region, now_s=time())


def check_clock(patient: Patient) -> Iterator[Finding]:
    """How far this machine's clock is from AWS's."""
    if not patient.follows_the_endpoint:
        yield judge_clock(patient.caller().ahead_s)
        return
    now = datetime.fromtimestamp(patient.now_s(), tz=UTC)
    yield skipped(
        f"{CLOCK}=endpoint: it is {now:%Y-%m-%d %H:%M:%S} UTC there, whatever this machine's clock says",
        fix=f"for AWS itself, unset {CLOCK}",
    )


def judge_credentials(caller: Caller, region: str, *, now_s: float) -> Finding:
    """Credentials that AWS knows are good, unless they are root's or end at any moment."""
    identity = caller.identity
    seen = f"{identity.arn} of account {identity.account}, in {region}"
    seen += f", by {caller.method}" if caller.method else ""
    if identity.arn.endswith(":root"):
        fix = "use those of a user or a role: README.md lists the few permissions that are needed"
        return warning(f"{seen}: these are the root user's, who may do everything", fix=fix)
    if caller.expires_at is None:
        return ok(seen)
    left_s = caller.expires_at.timestamp() - now_s
    until = f"until {format_instant(caller.expires_at.timestamp())}"
    if caller.method != _FROM_ENVIRONMENT:
        return ok(f"{seen}, {until} and then renewed")
    if left_s < _SOON_S:
        fix = "get new ones before you begin anything long, such as a watch: these cannot renew themselves"
        return warning(f"{seen}, and they end in {format_duration(max(0.0, left_s))}", fix=fix)
    return ok(f"{seen}, {until}")


def judge_clock(ahead_s: float | None) -> Finding:
    """A signature holds for five minutes, and every forecast counts from now."""
    if ahead_s is None:
        return skipped("not known: AWS's answer had no date")
    off_s, side = abs(ahead_s), "ahead of" if ahead_s > 0 else "behind"
    seen = f"{format_duration(off_s)} {side} AWS's"
    commands = ("chronyc makestep",)
    if off_s > MOST_SKEW_S:
        limit = f"a watch refuses from {format_duration(MOST_SKEW_S)} on, AWS from 5 min"
        return broken(f"{seen}; {limit}", fix=_SET_CLOCK, commands=commands)
    if off_s > _ODD_SKEW_S:
        return warning(
            f"{seen}, which is odd: forecasts are off by as much", fix=_SET_CLOCK, commands=commands
        )
    return ok("as AWS's, to the second" if off_s < 2 else seen)  # noqa: PLR2004 - what a header tells
